package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

type slice struct {
	token, untilMS int64
	holder         timer.ID
	done           bool
}

func (s *Store) minute(m int64) *slicing.MinuteCount {
	c := s.minutes[m]
	if c == nil {
		c = &slicing.MinuteCount{Minute: m, Buckets: 1}
		s.minutes[m] = c
	}
	return c
}

// GrowMinutes adds to estimates and raises counts that are not frozen.
func (s *Store) GrowMinutes(
	_ context.Context,
	grow []slicing.Growth,
) (out []slicing.MinuteCount, err error) {
	defer s.lock()()
	for _, g := range grow {
		c := s.minute(g.Minute)
		c.Estimate += g.Added
		if !c.Frozen {
			c.Buckets = max(c.Buckets, g.Buckets)
		}
	}
	for _, g := range grow {
		out = append(out, *s.minutes[g.Minute])
	}
	slices.SortFunc(
		out,
		func(a, b slicing.MinuteCount) int { return cmp.Compare(a.Minute, b.Minute) },
	)
	return slices.Compact(out), nil
}

// MinuteCounts returns the counts of minutes that have a row.
func (s *Store) MinuteCounts(
	_ context.Context,
	from, to int64,
) (out []slicing.MinuteCount, err error) {
	defer s.lock()()
	for m, c := range s.minutes {
		if m >= from && m <= to {
			out = append(out, *c)
		}
	}
	slices.SortFunc(
		out,
		func(a, b slicing.MinuteCount) int { return cmp.Compare(a.Minute, b.Minute) },
	)
	return out, nil
}

// FreezeMinute makes a minute's count final and returns it.
func (s *Store) FreezeMinute(_ context.Context, minute int64) (int32, error) {
	defer s.lock()()
	c := s.minute(minute)
	c.Frozen = true
	return c.Buckets, nil
}

// ClaimSlices claims slices that are not done and whose lease has expired.
func (s *Store) ClaimSlices(
	_ context.Context,
	minute int64,
	buckets int32,
	lease time.Duration,
	limit int,
) (claims []store.SliceClaim, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	for len(s.slices[minute]) < int(buckets) {
		s.slices[minute] = append(s.slices[minute], &slice{})
	}
	for b, sl := range s.slices[minute] {
		if sl.done || sl.untilMS > nowMS || len(claims) == limit {
			continue
		}
		sl.token, sl.holder, sl.untilMS = sl.token+1, 0, nowMS+lease.Milliseconds()
		claims = append(claims, store.SliceClaim{Minute: minute, Bucket: int32(b), Token: sl.token})
	}
	return claims, nil
}

// latestClaim returns the slice of a claim, or nil if the claim is not the latest.
func (s *Store) latestClaim(c store.SliceClaim) *slice {
	all := s.slices[c.Minute]
	if int(c.Bucket) >= len(all) || all[c.Bucket].token != c.Token {
		return nil
	}
	return all[c.Bucket]
}

// AcquireSlice makes holder the lease holder.
func (s *Store) AcquireSlice(
	_ context.Context,
	c store.SliceClaim,
	holder timer.ID,
	lease time.Duration,
	free bool,
) (bool, error) {
	defer s.lock()()
	sl := s.latestClaim(c)
	if sl == nil || sl.done || free && sl.holder != 0 && sl.holder != holder {
		return false, nil
	}
	sl.holder, sl.untilMS = holder, s.nowMS()+lease.Milliseconds()
	return true, nil
}

// RenewSlices renews leases.
func (s *Store) RenewSlices(
	_ context.Context, holder timer.ID, claims []store.SliceClaim, lease time.Duration,
) (lost []store.SliceClaim, err error) {
	defer s.lock()()
	for _, c := range claims {
		if sl := s.latestClaim(c); sl != nil && !sl.done && sl.holder == holder {
			sl.untilMS = s.nowMS() + lease.Milliseconds()
		} else {
			lost = append(lost, c)
		}
	}
	return lost, nil
}

// FinishSlice marks a slice as done.
func (s *Store) FinishSlice(_ context.Context, c store.SliceClaim) (bool, error) {
	defer s.lock()()
	sl := s.latestClaim(c)
	if sl == nil {
		return false, nil
	}
	sl.done = true
	return true, nil
}

// Cursor returns the position of the cursor. The very first call sets it.
func (s *Store) Cursor(_ context.Context, minute int64) (int64, error) {
	defer s.lock()()
	if s.cursor == 0 {
		s.cursor = minute
	}
	return s.cursor, nil
}

// AdvanceCursor moves the cursor past finished minutes.
func (s *Store) AdvanceCursor(_ context.Context, limit int64) (int64, error) {
	defer s.lock()()
	for s.cursor != 0 && s.cursor < limit && s.finished(s.cursor) {
		s.cursor++
	}
	return s.cursor, nil
}

func (s *Store) finished(minute int64) bool {
	c := s.minutes[minute]
	if c == nil || !c.Frozen {
		return false
	}
	n := int32(0)
	for _, sl := range s.slices[minute] {
		if sl.done {
			n++
		}
	}
	return n >= c.Buckets
}

// SliceBacklog counts the slices that are claimed and not done.
func (s *Store) SliceBacklog(context.Context) (n int64, err error) {
	defer s.lock()()
	for m, all := range s.slices {
		if m < s.cursor {
			continue
		}
		for _, sl := range all {
			if sl.token > 0 && !sl.done {
				n++
			}
		}
	}
	return n, nil
}
