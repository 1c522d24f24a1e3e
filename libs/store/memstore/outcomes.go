package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Record finishes fires.
func (s *Store) Record(
	_ context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, made []timer.Fire, err error) {
	defer s.lock()()
	var slots []*row // timers whose slot may be free now
	next := s.nextOf(session, outcomes)
	for i := range outcomes {
		o := &outcomes[i]
		f, t := s.fires[o.FireID], s.timers[o.Timer]
		switch {
		case f != nil && f.Owner == session && (o.Reason != timer.ReasonSuperseded ||
			f.Version == o.Version && f.Epoch == o.Epoch && !s.undecided(o.FireID) &&
				!next[o.FireID]):
			takenBack := t != nil && t.tookBack(f)
			s.finish(f, o, session)
			s.addAttempts(o.FireID, attempts)
			if (o.Serial || o.Next != nil) && o.Series == 0 && o.Attempts > 0 {
				t.lastCallEndedMS = max(t.lastCallEndedMS, o.FinishedMS)
			}
			if o.Uncounted && !takenBack {
				s.uncount(t)
			}
			made = append(made, s.successor(o, f)...)
			if o.Serial {
				delete(t.queue, o.FireID)
				slots = append(slots, t)
			}
		case f != nil || s.ended[o.FireID] != session:
			lost = append(lost, o.FireID)
		default:
			if o.Next != nil {
				made = append(made, s.unclaimed(o.Next.FireID)...)
			}
			if o.Serial {
				made = append(made, s.unclaimed(t.slot)...)
			}
		}
	}
	for _, t := range slots {
		made = append(made, s.promoteNext(t)...)
	}
	slices.SortFunc(lost, timer.CompareFireIDs)
	return slices.Compact(lost), distinct(made), nil
}

// nextOf returns the fires to which chains come by outcomes of the session. They are not superseded
// in the same batch.
func (s *Store) nextOf(session timer.ID, outcomes []timer.Outcome) map[timer.FireID]bool {
	next := map[timer.FireID]bool{}
	for i := range outcomes {
		o := &outcomes[i]
		if f := s.fires[o.FireID]; o.Next != nil && o.Reason != timer.ReasonSuperseded &&
			f != nil && f.Owner == session {
			next[o.Next.FireID] = true
		}
	}
	return next
}

// uncount takes a skipped fire off fires_created.
func (s *Store) uncount(t *row) {
	if t.FiresCreated = max(0, t.FiresCreated-1); t.Status == timer.StatusActive {
		t.ExpandAtMS = min(t.ExpandAtMS, s.nowMS())
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
	}
}

// tookBack reports whether the plan of a later version has taken a fire back, and with it its count.
func (t *row) tookBack(f *timer.Fire) bool {
	before := t.chainBefore(f)
	for v := f.Version + 1; v <= t.Version; v++ {
		if t.planVersions[v] == v && t.versionSinceMS[v] < f.DueMS &&
			(!before || t.versionSinceMS[v] <= t.ActiveSinceMS) {
			return true
		}
	}
	return false
}

// chainBefore reports whether a fire is of a fixed delay's chain before its present activation. Edits
// after that take back nothing of it.
func (t *row) chainBefore(f *timer.Fire) bool {
	return f.Epoch < t.ActiveEpoch && t.versions[f.Version].Schedule.Kind == timer.KindFixedDelay
}

// finish moves a fire from the open fires to the outcomes.
func (s *Store) finish(f *timer.Fire, o *timer.Outcome, session timer.ID) {
	s.remove(f)
	s.add(asStored(*o, session))
	s.ended[o.FireID] = session
}

// add adds an outcome in its stored form.
func (s *Store) add(o timer.Outcome) {
	s.outcomes[o.Timer] = append(s.outcomes[o.Timer], o)
	s.bySession[o.Owner] = append(s.bySession[o.Owner], o)
}

// asStored returns the parts of an outcome that databases keep.
func asStored(o timer.Outcome, by timer.ID) timer.Outcome {
	o.Owner, o.Attempt, o.FirstLatenessMS = by, o.Attempts, o.LatenessMS
	o.Bucket, o.State, o.Serial, o.Next, o.Uncounted = 0, 0, false, nil, false
	o.PriorityLevel, o.TargetBits, o.Redriven = 0, 0, 0
	o.WaitingSinceMS, o.WaitedFor = 0, 0
	o.Hops = store.StoredHops(&o.Hops, o.FinishedMS).Hops(o.FinishedMS)
	return o
}

// addAttempts adds those attempts of the fire that are not stored yet.
func (s *Store) addAttempts(id timer.FireID, attempts []timer.Attempt) {
	for _, a := range attempts {
		known := func(b timer.Attempt) bool {
			return a.N == b.N && a.Target == b.Target &&
				a.EndMS() == b.EndMS()
		}
		if a.FireID == id && !slices.ContainsFunc(s.attempts[id], known) {
			a.Error, a.Excerpt = clip(a.Error), clip(a.Excerpt)
			s.attempts[id] = append(s.attempts[id], a)
		}
	}
}

// clip shortens a text to valid UTF-8 of the stored length.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for n := timer.MaxExcerpt; n < len(text); n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text
}

// Fire returns a fire with its attempts.
func (s *Store) Fire(
	_ context.Context,
	app string,
	id timer.FireID,
) (rec store.FireRecord, err error) {
	defer s.lock()()
	if t := s.timers[id.Timer]; t == nil || t.App != app {
		return rec, timer.NotFound("timer", id.Timer)
	}
	if i := slices.IndexFunc(
		s.outcomes[id.Timer],
		func(o timer.Outcome) bool { return o.FireID == id },
	); i >= 0 {
		o := s.outcomes[id.Timer][i]
		rec.Outcome = &o
	} else if f := s.fires[id]; f != nil {
		open := *f
		rec.Open = &open
	} else {
		return rec, timer.NotFound("fire", id)
	}
	rec.Attempts = slices.Clone(s.attempts[id])
	slices.SortFunc(rec.Attempts, compareAttempts)
	return rec, nil
}

// TargetAttempts returns the attempts of fires with several targets.
func (s *Store) TargetAttempts(
	_ context.Context,
	fires []timer.FireID,
) (out []timer.Attempt, err error) {
	defer s.lock()()
	for _, id := range fires {
		of := slices.Clone(s.attempts[id])
		slices.SortFunc(of, compareAttempts)
		for _, a := range of {
			if a.Error, a.Excerpt = "", ""; a.Target != "" {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// LastErrors returns the last error texts of fires.
func (s *Store) LastErrors(
	_ context.Context,
	fires []timer.FireID,
) (map[timer.FireID]string, error) {
	defer s.lock()()
	last := make(map[timer.FireID]string)
	for _, id := range fires {
		if text := s.lastError(id); text != "" {
			last[id] = text
		}
	}
	return last, nil
}

// lastError returns the last error text of a fire, without those of a target that took it later.
func (s *Store) lastError(id timer.FireID) (last string) {
	taken := make(map[string]int32)
	for _, a := range s.attempts[id] {
		if a.Failure == timer.FailureNone {
			taken[a.Target] = max(taken[a.Target], a.N)
		}
	}
	for _, a := range slices.SortedFunc(slices.Values(s.attempts[id]), compareAttempts) {
		if a.Target == "" || a.Failure != timer.FailureNone && a.N >= taken[a.Target] {
			last = cmp.Or(a.Error, last)
		}
	}
	return last
}

func compareAttempts(a, b timer.Attempt) int {
	return cmp.Or(
		cmp.Compare(a.N, b.N),
		cmp.Compare(a.StartMS, b.StartMS),
		cmp.Compare(a.Target, b.Target),
	)
}

// History pages backwards through a timer's outcomes.
func (s *Store) History(
	_ context.Context,
	app string,
	id timer.ID,
	before timer.FireID,
	limit int,
) (out []timer.Outcome, err error) {
	defer s.lock()()
	if t := s.timers[id]; t == nil || t.App != app {
		return nil, timer.NotFound("timer", id)
	}
	for _, o := range s.outcomes[id] {
		if before == (timer.FireID{}) ||
			cmp.Or(cmp.Compare(o.DueMS, before.DueMS), cmp.Compare(o.Series, before.Series)) < 0 {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b timer.Outcome) int { return timer.CompareFires(b.Fire, a.Fire) })
	return out[:min(len(out), limit)], nil
}

// LastScheduled returns the latest outcome of the schedule before an instant.
func (s *Store) LastScheduled(
	_ context.Context, app string, id timer.ID, beforeMS int64,
) (last timer.Outcome, found bool, err error) {
	defer s.lock()()
	if t := s.timers[id]; t == nil || t.App != app {
		return last, false, timer.NotFound("timer", id)
	}
	for _, o := range s.outcomes[id] {
		if o.Series == 0 && o.DueMS < beforeMS && (!found || o.DueMS > last.DueMS) {
			last, found = o, true
		}
	}
	return last, found, nil
}

// OpenFires scans the open fires of all timers in the order of their keys.
func (s *Store) OpenFires(
	_ context.Context,
	app string,
	id timer.ID,
	q store.OpenFiresQuery,
) (page store.OpenFiresPage, err error) {
	defer s.lock()()
	if t := s.timers[id]; t == nil || t.App != app {
		return page, timer.NotFound("timer", id)
	}
	var dues []int64
	var own []timer.Fire
	for _, f := range s.fires {
		if f.DueMS < q.After.DueMS || f.DueMS > q.UntilMS {
			continue
		}
		dues = append(dues, f.DueMS)
		if f.Timer == id && q.After.Before(f.FireID) {
			own = append(own, *f)
		}
	}
	slices.Sort(dues)
	slices.SortFunc(own, timer.CompareFires)
	untilMS := q.UntilMS
	if len(dues) >= q.ScanLimit {
		untilMS = dues[q.ScanLimit-1]
		page.Next = store.OpenFiresPosition{DueMS: untilMS + 1, Series: store.BeforeAllSeries}
	}
	for _, f := range own {
		if f.DueMS > untilMS {
			break
		}
		if page.Fires = append(page.Fires, f); len(page.Fires) == q.Limit {
			page.Next = store.OpenFiresPosition{DueMS: f.DueMS, Series: f.Series}
			break
		}
	}
	return page, nil
}

// How long data is kept that is no longer needed, as in the databases.
const (
	changeRetention = time.Hour
	endedRetention  = 24 * time.Hour
)

// PurgedBefore returns the latest bound of PurgeExpired.
func (s *Store) PurgedBefore(context.Context) (int64, error) {
	defer s.lock()()
	return s.purgedMS, nil
}

// PurgeExpired removes what has expired.
func (s *Store) PurgeExpired(_ context.Context, retention time.Duration) error {
	defer s.lock()()
	nowMS := s.nowMS()
	bound, dayAgo := nowMS-retention.Milliseconds(), nowMS-endedRetention.Milliseconds()
	s.purgedMS = min(max(s.purgedMS, bound), nowMS)
	maps.DeleteFunc(s.jobs, func(_ timer.ID, j *job) bool {
		return j.FinishedMS > 0 && j.FinishedMS < bound
	})
	for id, all := range s.outcomes {
		s.outcomes[id] = slices.DeleteFunc(all, func(o timer.Outcome) bool {
			if o.FinishedMS < bound {
				delete(s.ended, o.FireID)
			}
			return o.FinishedMS < bound
		})
	}
	for id, all := range s.bySession {
		all = slices.DeleteFunc(
			all,
			func(o timer.Outcome) bool { return o.FinishedMS < nowMS-maxEventAge.Milliseconds() },
		)
		if s.bySession[id] = all; len(all) == 0 {
			delete(s.bySession, id)
		}
	}
	oldest := timer.NeverMS
	for id := range s.fires {
		oldest = min(oldest, id.DueMS)
	}
	s.backfills = slices.DeleteFunc(s.backfills, func(b *backfill) bool {
		return b.Status != store.BackfillRunning && b.CreatedMS < bound && b.ToMS <= oldest
	})
	attemptBound := min(bound, nowMS-store.AttemptRetention.Milliseconds())
	for id, all := range s.attempts {
		all = slices.DeleteFunc(
			all,
			func(a timer.Attempt) bool { return a.EndMS() < attemptBound },
		)
		if s.attempts[id] = all; len(all) == 0 {
			delete(s.attempts, id)
		}
	}
	// The last of the old entries stays, see S4. The log never looks new, either.
	for len(s.changes) > 1 && s.changes[1].atMS < nowMS-changeRetention.Milliseconds() {
		s.changes = s.changes[1:]
	}
	for id, x := range s.sessions {
		if x.endedMS > 0 && x.endedMS < dayAgo {
			delete(s.sessions, id)
			delete(s.eventPosition, id)
		}
	}
	for m := range s.minutes {
		if m < min(s.cursor, dayAgo/timer.MinuteMS) {
			delete(s.minutes, m)
			delete(s.slices, m)
		}
	}
	maps.DeleteFunc(s.endedSignIns, func(_ person, beforeMS int64) bool {
		return beforeMS < dayAgo-store.MaxSignIn.Milliseconds()
	})
	for k, v := range s.keys {
		if v.atMS < dayAgo {
			delete(s.keys, k)
		}
	}
	return nil
}
