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
	// auditRound is after how long a round begins no further page. The rest of auditTimeout is for
	// the page that was begun: one that is cut off is published twice.
	auditRound = 15 * time.Second
	// auditLease is longer than a round and its release, so a holder has stopped when its lease
	// ends.
	auditLease   = 30 * time.Second
	auditRelease = 3 * time.Second
)

// publishAudit publishes the audit trail, one scheduler at a time. After a round that ran out of
// time the next begins at once, because its tick has passed. Otherwise it begins at the next tick,
// so an entry that came meanwhile waits for at most auditEvery.
func (s *Service) publishAudit(ctx context.Context) error {
	return every(ctx, auditEvery, func() {
		if err := s.publishNewEntries(ctx); err != nil {
			s.reportError(ctx, err, "audit trail not published")
		}
	})
}

// publishNewEntries publishes the entries since the last round. Most rounds find none, and then
// write nothing.
//
// A round ends with a page that is not full, or when its time is over. Waiting for an empty page
// would not end while entries come steadily. The lease is then released, so that any scheduler may
// do the next round, also at a stop. After an error it ends by itself, which is the pause before the
// same entries are published again. A release that is lost delays the next round until then.
func (s *Service) publishNewEntries(ctx context.Context) error {
	round, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	first, err := s.pendingAudit(round, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	l, ok, err := s.opts.Store.LeaseAuditFeed(round, auditLease)
	if err != nil || !ok {
		return err //nolint:wrapcheck // as above
	}
	s.auditSeen = l.After
	began := time.Now()
	for more := true; more && time.Since(began) < auditRound; {
		if more, err = s.publishPage(round); err != nil {
			break
		}
	}
	if err != nil && ctx.Err() == nil && !isPartial(round, s.auditSeen > l.After) {
		return err
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditRelease)
	defer cancel()
	return s.opts.Store.ReleaseAuditFeed(release, l) //nolint:wrapcheck // as above
}

// pendingAudit returns the next entries. A commit may stall for longer than the delay. Then so do the
// writes of the session, and an entry waits for as long.
func (s *Service) pendingAudit(ctx context.Context, limit int) ([]store.AuditEntry, error) {
	written := s.heartbeater.Written()
	if written.IsZero() {
		return nil, nil
	}
	delay := s.opts.AuditDelay + time.Since(written)
	//nolint:wrapcheck // the store says what it was doing
	return s.opts.Store.PendingAudit(ctx, s.auditSeen, delay, limit)
}

// isPartial returns whether a round that failed has done a part of its work and then ran out of
// time. That is no error: the next round goes on from there. It asks the clock, because a server's
// client may look at the deadline before the context ends.
func isPartial(round context.Context, progress bool) bool {
	end, ok := round.Deadline()
	return progress && ok && !time.Now().Before(end)
}

// publishPage publishes the next page of entries, and returns whether there may be more. The
// position moves once the bus has confirmed the page: a scheduler that dies before has its entries
// published again by the next holder, and none is left out.
func (s *Service) publishPage(ctx context.Context) (more bool, err error) {
	page, err := s.pendingAudit(ctx, store.MaxBatch)
	if err != nil || len(page) == 0 {
		return false, err
	}
	msgs := make([]bus.Message, len(page))
	for i := range page {
		if msgs[i], err = auditMessage(&page[i]); err != nil {
			return false, err
		}
	}
	if err := s.opts.Bus.Publish(ctx, bus.Audit, msgs...); err != nil {
		return false, err //nolint:wrapcheck // the bus names the topic
	}
	at := page[len(page)-1].Seq
	if err := s.opts.Store.AckAudit(ctx, at); err != nil {
		return false, err //nolint:wrapcheck // as above
	}
	s.auditSeen = at
	return len(page) == store.MaxBatch, nil
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
