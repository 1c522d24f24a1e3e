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
	boundMS := s.nowMS() - delay.Milliseconds()
	for _, e := range s.audit {
		if e.Seq <= after {
			continue
		}
		if e.AtMS > boundMS || len(entries) == limit {
			break
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// AckAudit moves the position forward.
func (s *Store) AckAudit(_ context.Context, seq int64) error {
	defer s.lock()()
	s.auditAcked = max(s.auditAcked, seq)
	return nil
}
