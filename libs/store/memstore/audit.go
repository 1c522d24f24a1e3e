package memstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
)

// actorOf returns the actor of an item, nil: nobody.
func actorOf(ctx context.Context, by *store.Actor) *store.Actor {
	if by != nil {
		return by
	}
	return store.ActorOf(ctx)
}

// addAudit adds an entry of an actor to the audit trail, unless there is none. An entry cannot fail
// here: what it encodes was decoded from JSON or has plain fields.
func (s *Store) addAudit(by *store.Actor, app string, e store.AuditEntry, err error) {
	if err != nil {
		panic(err)
	}
	if by == nil {
		return
	}
	s.auditSeq++
	e.Seq, e.AtMS, e.App, e.By = s.auditSeq, s.nowMS(), app, *by
	s.audit = append(s.audit, e)
}

// AddAudit adds an entry about what was done without a change of the store.
func (s *Store) AddAudit(ctx context.Context, app string, e store.AuditEntry) error {
	defer s.lockToWrite(ctx)()
	if err := s.refuseDeleted(app); err != nil {
		return err
	}
	s.app(app)
	s.addAudit(store.ActorOf(ctx), app, e, nil)
	return nil
}

// AuditTrail returns a page of an app's entries.
func (s *Store) AuditTrail(
	_ context.Context,
	q store.AuditQuery,
) (page store.AuditPage, err error) {
	defer s.lock()()
	byResource := q.Kind != "" && q.Resource != ""
	scanned, last := 0, int64(0)
	for i := len(s.audit) - 1; i >= 0; i-- {
		e := &s.audit[i]
		if e.App != q.App || q.Before != 0 && e.Seq >= q.Before ||
			byResource && (e.Kind != q.Kind || e.Resource != q.Resource) {
			continue
		}
		if scanned == q.ScanLimit || len(page.Entries) == q.Limit {
			page.Next = last
			break
		}
		scanned++
		last = e.Seq
		if matches(&q, e) {
			page.Entries = append(page.Entries, *e)
		}
	}
	return page, nil
}

func matches(q *store.AuditQuery, e *store.AuditEntry) bool {
	return (q.Kind == "" || q.Kind == e.Kind) &&
		(q.Resource == "" || q.Resource == e.Resource) &&
		(q.Name == "" || q.Name == e.Name) &&
		(q.Action == "" || q.Action == e.Action) &&
		(q.Actor == "" || q.Actor == e.By.ID) &&
		e.AtMS >= q.FromMS && (q.ToMS == 0 || e.AtMS < q.ToMS)
}

// PurgeAudit removes old entries.
func (s *Store) PurgeAudit(_ context.Context, retention time.Duration) error {
	defer s.lock()()
	boundMS := s.nowMS() - retention.Milliseconds()
	s.audit = slices.DeleteFunc(s.audit, func(e store.AuditEntry) bool { return e.AtMS < boundMS })
	return nil
}

// auditCalendar adds a changed calendar to the audit trail; nil: there is none.
func (s *Store) auditCalendar(ctx context.Context, app, name string, was, is any) error {
	var texts [2][]byte
	for i, v := range []any{was, is} {
		if v == nil {
			continue
		}
		var err error
		if texts[i], err = json.Marshal(v); err != nil {
			return fmt.Errorf("encoding the calendar: %w", err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		s.addAudit(store.ActorOf(ctx), app, store.AuditCalendarPut(name, texts[0], texts[1]), nil)
	}
	return nil
}
