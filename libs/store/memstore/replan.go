package memstore

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// DefaultMaxEditFires is the largest number of fires that an edit plans itself.
const DefaultMaxEditFires = 64

const (
	editAheadMS      = int64(10 * time.Second / time.Millisecond)
	replanRounds     = 4
	replanRetryDelay = time.Minute
)

// SetMaxEditFires sets the largest number of fires that an edit plans itself. Call it before the
// store is used.
func (s *Store) SetMaxEditFires(n int) { s.maxEditFires = n }

// recurring reports whether a timer has any number of fires that its schedule leads to.
func (t *row) recurring() bool {
	return t.Definition.Schedule.Kind.Repeats() && t.Definition.Schedule.MaxFires == 0
}

// planNext plans as of the instant that a follow-up has reached, if it is behind.
func planNext(t *row, plan store.Planner, nowMS int64) store.Plan {
	asOfMS := nowMS
	if t.NextDueMS < t.replanUntilMS {
		asOfMS = min(nowMS, max(t.NextDueMS, t.ActiveSinceMS))
	}
	p := plan(&t.Timer, asOfMS)
	if p.Err == nil {
		p.Err = checkPlan(&t.Timer, &p)
	}
	return p
}

// cutPlan keeps the part of a plan up to an instant.
func cutPlan(p *store.Plan, untilMS int64) {
	n, m := 0, 0
	for ; n < len(p.Fires) && p.Fires[n].DueMS <= untilMS; n++ {
	}
	if n < len(p.Fires) {
		p.NextDueMS = p.Fires[n].DueMS
	}
	for ; m < len(p.Skips) && p.Skips[m].UntilMS <= untilMS; m++ {
	}
	if m < len(p.Skips) {
		p.NextDueMS = min(p.NextDueMS, p.Skips[m].DueMS)
	}
	p.Fires, p.Skips = p.Fires[:n], p.Skips[:m]
}

// shorten cuts the plan of an edit. The follow-up goes at least up to openUntilMS.
func (s *Store) shorten(t *row, p *store.Plan, nowMS, openUntilMS int64) {
	if !t.recurring() || len(p.Fires) <= s.maxEditFires {
		return
	}
	cutPlan(p, min(nowMS+editAheadMS, p.Fires[s.maxEditFires].DueMS-1))
	p.ExpandAtMS = p.NextDueMS
	t.replanUntilMS = max(t.replanUntilMS, openUntilMS, p.NextDueMS+1)
}

// planRest sees to the open fires of older versions that a first plan has not reached.
func (s *Store) planRest(
	t *row,
	plan store.Planner,
	nowMS, openUntilMS int64,
) (fires []timer.Fire) {
	if t.recurring() && t.NextDueMS < openUntilMS {
		t.replanUntilMS, t.nextPageMS = max(t.replanUntilMS, openUntilMS), nowMS
		return nil
	}
	for range replanRounds {
		if !t.Definition.Schedule.Kind.Repeats() || t.NextDueMS >= openUntilMS ||
			store.AllCreated(&t.Timer) {
			break
		}
		more, ok := s.expand(t, plan, nowMS)
		if !ok {
			break
		}
		fires = append(fires, more...)
	}
	return fires
}

// followUp sets when the next page of a timer is due, or ends its replan.
func (t *row) followUp(nextPageMS int64) {
	if t.replanUntilMS == 0 {
		return
	}
	t.nextPageMS = nextPageMS
	if t.Status == timer.StatusDeleted || !t.recurring() || t.NextDueMS >= t.replanUntilMS {
		t.replanUntilMS = 0
	}
}

// ContinueReplans does the page of the timer that is due first.
func (s *Store) ContinueReplans(
	_ context.Context,
	plan store.Planner,
) (fires []timer.Fire, more bool, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	t := s.dueReplan(nowMS)
	switch {
	case t == nil:
		return nil, false, nil
	case t.Status != timer.StatusActive:
		t.followUp(max(nowMS+replanRetryDelay.Milliseconds(), t.PausedUntilMS))
		return nil, true, nil
	}
	return s.expandOne(t, plan, nowMS), true, nil
}

// dueReplan returns the timer whose next page is due first, or nil.
func (s *Store) dueReplan(nowMS int64) (t *row) {
	for _, r := range s.rows {
		if r.replanUntilMS > 0 && r.nextPageMS <= nowMS &&
			(t == nil || r.nextPageMS < t.nextPageMS) {
			t = r
		}
	}
	return t
}

// expandOne expands a timer that is active, or whose pause is over, and logs its change.
func (s *Store) expandOne(t *row, plan store.Planner, nowMS int64) []timer.Fire {
	was := t.Timer
	next := s.proceed
	if t.Status == timer.StatusPaused {
		next = s.activate
	}
	fires := next(t, plan, nowMS)
	nextPageMS := nowMS
	if t.NextDueMS == was.NextDueMS {
		nextPageMS += replanRetryDelay.Milliseconds() // the plan has failed
	}
	t.followUp(nextPageMS)
	if t.Status != was.Status || t.Version != was.Version {
		s.log(nowMS, t, nil)
	}
	return fires
}

// Replanning returns those of the fires that the follow-up of an edit has not reached.
func (s *Store) Replanning(
	_ context.Context,
	ids []timer.FireID,
) (undecided []timer.FireID, err error) {
	defer s.lock()()
	for _, id := range ids {
		if s.undecided(id) {
			undecided = append(undecided, id)
		}
	}
	return undecided, nil
}

func (s *Store) undecided(id timer.FireID) bool {
	t := s.timers[id.Timer]
	return t != nil && id.Series == 0 && id.DueMS >= t.NextDueMS && id.DueMS < t.replanUntilMS
}
