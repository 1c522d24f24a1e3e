package memstore

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
)

// LeaseAuditFeed gives the feed to the caller.
func (s *Store) LeaseAuditFeed(
	_ context.Context,
	lease time.Duration,
) (l store.AuditLease, ok bool, err error) {
	defer s.lock()()
	if s.auditLeaseMS > s.nowMS() {
		return l, false, nil
	}
	s.auditLeaseMS = s.nowMS() + lease.Milliseconds()
	return store.AuditLease{After: s.auditAcked, UntilMS: s.auditLeaseMS}, true, nil
}

// ReleaseAuditFeed ends a lease.
func (s *Store) ReleaseAuditFeed(_ context.Context, l store.AuditLease) error {
	defer s.lock()()
	if s.auditLeaseMS == l.UntilMS {
		s.auditLeaseMS = 0
	}
	return nil
}

// PendingAudit returns entries in order.
func (s *Store) PendingAudit(
	_ context.Context,
	after int64,
	delay time.Duration,
	limit int,
) (entries []store.AuditEntry, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	boundMS := nowMS - delay.Milliseconds()
	n := 0 // how many are old enough: those of the future are if one behind them is
	for _, e := range s.audit {
		switch {
		case e.Seq <= after:
			continue
		case e.AtMS > boundMS && e.AtMS <= nowMS:
			return entries[:min(n, limit)], nil
		}
		entries = append(entries, e)
		if e.AtMS <= boundMS {
			n = len(entries)
		}
		if n >= limit {
			break
		}
	}
	return entries[:min(n, limit)], nil
}

// AckAudit moves the position forward.
func (s *Store) AckAudit(_ context.Context, seq int64) error {
	defer s.lock()()
	s.auditAcked = max(s.auditAcked, seq)
	return nil
}
