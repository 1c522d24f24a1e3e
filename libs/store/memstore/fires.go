package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *Store) insert(f *timer.Fire) {
	s.fires[f.FireID] = f
	m := s.byMinute[f.RunAtMinute()]
	if m == nil {
		m = make(map[timer.FireID]*timer.Fire)
		s.byMinute[f.RunAtMinute()] = m
	}
	m[f.FireID] = f
}

func (s *Store) remove(f *timer.Fire) {
	delete(s.fires, f.FireID)
	m := s.byMinute[f.RunAtMinute()]
	if delete(m, f.FireID); len(m) == 0 {
		delete(s.byMinute, f.RunAtMinute())
	}
}

// byRun orders fires by run_at.
func byRun(a, b timer.Fire) int {
	return cmp.Or(cmp.Compare(a.RunAtMS, b.RunAtMS), timer.CompareFires(a, b))
}

// open returns up to limit wanted open fires up to an instant, in order of run_at.
func (s *Store) open(untilMS int64, limit int, wanted func(f *timer.Fire) bool) (out []timer.Fire) {
	for minute, fires := range s.byMinute {
		if minute > untilMS/timer.MinuteMS {
			continue
		}
		for _, f := range fires {
			if f.RunAtMS <= untilMS && wanted(f) {
				out = append(out, *f)
			}
		}
	}
	slices.SortFunc(out, byRun)
	return out[:min(len(out), max(limit, 0))]
}

// LoadSlice returns a page of a slice.
func (s *Store) LoadSlice(
	_ context.Context, minute int64, bucket int32, after store.Position, untilMS int64, limit int,
) (out []timer.Fire, err error) {
	defer s.lock()()
	behind := timer.Fire{FireID: after.FireID, RunAtMS: after.RunAtMS}
	for _, f := range s.byMinute[minute] {
		if f.Bucket == bucket && f.Owner == 0 && f.RunAtMS <= untilMS && byRun(*f, behind) > 0 {
			out = append(out, *f)
		}
	}
	slices.SortFunc(out, byRun)
	return out[:min(len(out), limit)], nil
}

// Claim claims fires that are free or belong to expired sessions.
func (s *Store) Claim(
	_ context.Context,
	session timer.ID,
	fires []timer.Fire,
) (won []timer.Fire, err error) {
	defer s.lock()()
	seen := make(map[timer.FireID]bool, len(fires))
	for i := range fires {
		f := s.fires[fires[i].FireID]
		if f == nil || f.Rev != fires[i].Rev || seen[f.FireID] {
			continue
		}
		if f.Owner != session && (s.alive(f.Owner) || !s.alive(session)) {
			continue
		}
		f.Owner, seen[f.FireID] = session, true
		won = append(won, *f)
	}
	slices.SortFunc(won, timer.CompareFires)
	return won, nil
}

// owned returns the row of a fire that the session owns at the given revision.
func (s *Store) owned(session timer.ID, given *timer.Fire) *timer.Fire {
	if f := s.fires[given.FireID]; f != nil && f.Owner == session && f.Rev == given.Rev {
		return f
	}
	return nil
}

// moveTo copies the fields that a release or a retry writes.
func (s *Store) moveTo(f, given *timer.Fire) {
	s.remove(f)
	f.RunAtMS, f.Bucket, f.State, f.Attempt, f.FirstLatenessMS, f.TargetBits = given.RunAtMS, given.Bucket, given.State, given.Attempt, given.FirstLatenessMS, given.TargetBits
	f.WaitingSinceMS, f.WaitedFor = given.WaitingSinceMS, given.WaitedFor
	s.insert(f)
}

// Release releases fires for dispatch.
func (s *Store) Release(
	_ context.Context, session timer.ID, fires []timer.Fire, attempts []timer.Attempt,
) (released []timer.Fire, err error) {
	defer s.lock()()
	for i := range fires {
		g := &fires[i]
		f := s.owned(session, g)
		if f == nil {
			continue
		}
		s.moveTo(f, g)
		f.Version = max(f.Version, g.Version)
		f.Rev, f.Owner = f.Rev+1, 0
		s.addAttempts(f.FireID, attempts)
		released = append(released, *f)
	}
	slices.SortFunc(released, timer.CompareFires)
	return released, nil
}

// RecordAttempts writes the attempts of fires that stay claimed.
func (s *Store) RecordAttempts(
	_ context.Context, session timer.ID, fires []timer.Fire, attempts []timer.Attempt,
) (lost []timer.FireID, err error) {
	defer s.lock()()
	for i := range fires {
		g := &fires[i]
		f := s.owned(session, g)
		if f == nil {
			lost = append(lost, g.FireID)
			continue
		}
		s.moveTo(f, g)
		f.Version = max(f.Version, g.Version)
		s.addAttempts(f.FireID, attempts)
	}
	slices.SortFunc(lost, timer.CompareFireIDs)
	return slices.Compact(lost), nil
}

// Begin records that first attempts begin.
func (s *Store) Begin(_ context.Context, session timer.ID, fires []timer.Fire) error {
	defer s.lock()()
	for i := range fires {
		if f := s.owned(session, &fires[i]); f != nil && f.Attempt == 0 {
			f.FirstLatenessMS = fires[i].FirstLatenessMS
		}
	}
	return nil
}

// OpenAmong returns those of the fires that are open.
func (s *Store) OpenAmong(_ context.Context, ids []timer.FireID) (open []timer.Fire, err error) {
	defer s.lock()()
	for _, id := range ids {
		if f := s.fires[id]; f != nil {
			open = append(open, *f)
		}
	}
	return open, nil
}

// Overdue returns overdue fires.
func (s *Store) Overdue(_ context.Context, q store.OverdueQuery) ([]timer.Fire, error) {
	defer s.lock()()
	return s.open(s.nowMS()-store.OverdueAfter.Milliseconds(), q.Limit, func(f *timer.Fire) bool {
		return (f.Owner == 0 || !slices.Contains(q.Live, f.Owner)) &&
			(q.Shards <= 1 || f.Bucket%q.Shards == q.Shard)
	}), nil
}

// OverdueByApp counts the open fires of earlier minutes, and those of their apps.
func (s *Store) OverdueByApp(
	_ context.Context,
	limit, top int,
) (n int, apps []store.AppCount, err error) {
	defer s.lock()()
	now := s.nowMS() / timer.MinuteMS
	var late []*timer.Fire
	for minute, fires := range s.byMinute {
		if minute < now {
			late = slices.AppendSeq(late, maps.Values(fires))
		}
	}
	slices.SortFunc(late, func(a, b *timer.Fire) int {
		return cmp.Compare(a.RunAtMinute(), b.RunAtMinute())
	})
	late = late[:min(limit, len(late))]
	counts := map[int64]int{}
	for _, f := range late {
		counts[f.AppID]++
	}
	for _, a := range s.apps {
		if c := counts[a.ID]; c > 0 {
			apps = append(apps, store.AppCount{App: a.Name, Count: c})
		}
	}
	slices.SortFunc(apps, func(a, b store.AppCount) int {
		return cmp.Or(
			cmp.Compare(b.Count, a.Count), cmp.Compare(s.apps[a.App].ID, s.apps[b.App].ID))
	})
	return len(late), apps[:min(top, len(apps))], nil
}

// Owned returns the fires that sessions own.
func (s *Store) Owned(
	_ context.Context,
	sessions []timer.ID,
	fromMS, untilMS int64,
	limit int,
) ([]timer.Fire, error) {
	defer s.lock()()
	if len(sessions) == 0 {
		return nil, nil
	}
	return s.open(untilMS, limit, func(f *timer.Fire) bool {
		return f.RunAtMS >= fromMS && slices.Contains(sessions, f.Owner)
	}), nil
}

// OldestOpen returns the run_at_ms of the most overdue open fire.
func (s *Store) OldestOpen(context.Context) (oldest int64, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	for minute, fires := range s.byMinute {
		if minute > nowMS/timer.MinuteMS {
			continue
		}
		for _, f := range fires {
			if f.RunAtMS <= nowMS && (oldest == 0 || f.RunAtMS < oldest) {
				oldest = f.RunAtMS
			}
		}
	}
	return oldest, nil
}
