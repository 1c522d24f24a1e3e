package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	auditEvery   = 5 * time.Second
	auditTimeout = 20 * time.Second
	// auditLease is longer than a round, so a holder has stopped when its lease ends.
	auditLease = 30 * time.Second
)

// publishAudit publishes the audit trail, one scheduler at a time.
func (s *Service) publishAudit(ctx context.Context) error {
	return every(ctx, auditEvery, func() {
		call, cancel := context.WithTimeout(ctx, auditTimeout)
		defer cancel()
		if err := s.publishNewEntries(call); err != nil {
			s.reportError(ctx, err, "audit trail not published")
		}
	})
}

// publishNewEntries publishes the entries since the last round. Most rounds find none, and then write
// nothing. The position moves once the bus has
// confirmed a page: a scheduler that dies before has its entries published again by the next
// holder, and none is left out.
func (s *Service) publishNewEntries(ctx context.Context) error {
	first, err := s.opts.Store.PendingAudit(ctx, s.auditSeen, s.opts.AuditDelay, 1)
	if err != nil || len(first) == 0 {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	l, ok, err := s.opts.Store.LeaseAuditFeed(ctx, auditLease)
	if err != nil || !ok {
		return err //nolint:wrapcheck // as above
	}
	s.auditSeen = l.After
	for {
		page, err := s.opts.Store.PendingAudit(ctx, s.auditSeen, s.opts.AuditDelay, store.MaxBatch)
		if err != nil {
			return err //nolint:wrapcheck // as above
		}
		if len(page) == 0 {
			return s.opts.Store.ReleaseAuditFeed(ctx, l) //nolint:wrapcheck // as above
		}
		msgs := make([]bus.Message, len(page))
		for i := range page {
			if msgs[i], err = auditMessage(&page[i]); err != nil {
				return err
			}
		}
		if err := s.opts.Bus.Publish(ctx, bus.Audit, msgs...); err != nil {
			return err //nolint:wrapcheck // the bus names the topic
		}
		at := page[len(page)-1].Seq
		if err := s.opts.Store.AckAudit(ctx, at); err != nil {
			return err //nolint:wrapcheck // as above
		}
		s.auditSeen = at
	}
}

// auditMessage returns the message of an entry, which is always the same.
func auditMessage(e *store.AuditEntry) (bus.Message, error) {
	payload, err := proto.Marshal(&carillonv1.AuditEntry{
		Seq: e.Seq, AtMs: e.AtMS, App: e.App,
		ActorKind: string(e.By.Kind), ActorId: text(e.By.ID), ActorName: text(e.By.Name),
		Address: text(e.By.Address), RequestId: text(e.By.Request), JobId: int64(e.By.Job),
		Action: string(e.Action), Kind: string(e.Kind),
		Resource: text(e.Resource), Name: text(e.Name),
		BeforeVersion: e.BeforeVersion, AfterVersion: e.AfterVersion,
	})
	if err != nil {
		return bus.Message{}, fmt.Errorf("encoding entry %d of the audit trail: %w", e.Seq, err)
	}
	return bus.Message{
		Key: e.App, Payload: payload, Properties: map[string]string{bus.PropApp: e.App},
	}, nil
}

// text makes a stored text valid UTF-8, which a message needs.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
