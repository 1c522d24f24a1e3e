package sqlstore

import (
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// postpone is how much later a timer is looked at again whose plan failed and named no later instant: it must not come up at
// once and for ever.
const postpone = time.Minute

// errBadPlan says that a planner broke the promises that keep a fire from being inserted twice.
var errBadPlan = errors.New("the plan goes back, repeats itself, or is another timer's")

// activate makes a timer active from now on: one epoch more, and the first stretch of its fires.
func (s *Store) activate(t *timer.Timer, plan store.Planner, nowMS int64) []timer.Fire {
	t.Status = timer.StatusActive
	t.ActiveSinceMS = nowMS
	t.ActiveEpoch++
	t.UpdatedMS = nowMS
	return s.expand(t, plan, nowMS)
}

// expand plans a stretch of a timer, moves it forward and returns the fires to insert. Where the plan fails it only postpones.
func (s *Store) expand(t *timer.Timer, plan store.Planner, nowMS int64) []timer.Fire {
	p := plan(t, nowMS)
	if p.Err == nil {
		p.Err = checkPlan(t, &p)
	}
	if p.Err != nil {
		t.ExpandAtMS = p.ExpandAtMS
		if t.ExpandAtMS <= nowMS {
			t.ExpandAtMS = nowMS + postpone.Milliseconds()
		}
		s.log.Warn().Err(p.Err).Int64("timer", int64(t.ID)).Int64("again_ms", t.ExpandAtMS).Msg("timer cannot be expanded")
		return nil
	}
	t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
	t.FiresMade += int64(len(p.Fires))
	return p.Fires
}

// catchUpRounds bounds what one change of status expands: 30,000 fires of a planner that plans 300 at once.
const catchUpRounds = 100

// catchUp expands what came due while the timer was active and no migrator expanded it: a timer that is switched off is expanded no more, and
// each of those instants has to have an outcome, if only that it was skipped. What is still to come is left for the next activation.
func (s *Store) catchUp(t *timer.Timer, plan store.Planner, nowMS int64) (fires []timer.Fire) {
	for range catchUpRounds {
		if t.NextDueMS > nowMS {
			break
		}
		p := plan(t, nowMS)
		if p.Err != nil || checkPlan(t, &p) != nil {
			break // it would not have been expanded in time either
		}
		n := 0
		for n < len(p.Fires) && p.Fires[n].DueMS <= nowMS {
			n++
		}
		t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
		if n < len(p.Fires) {
			t.NextDueMS = p.Fires[n].DueMS
		}
		t.FiresMade += int64(n)
		fires = append(fires, p.Fires[:n]...)
		if n == 0 {
			break
		}
	}
	return fires
}

// checkPlan sees to it that no due instant of a timer comes up twice: fires lie between the old next_due and the new one, each
// once. What it refuses would be a fault of the program's.
func checkPlan(t *timer.Timer, p *store.Plan) error {
	if p.NextDueMS < t.NextDueMS {
		return errBadPlan
	}
	slices.SortFunc(p.Fires, timer.CompareFires)
	last := t.NextDueMS - 1
	for i := range p.Fires {
		f := &p.Fires[i]
		if f.Timer != t.ID || f.Series != 0 || f.DueMS <= last {
			return errBadPlan
		}
		last = f.DueMS
		f.AppID, f.Version, f.Epoch = t.AppID, t.Version, t.ActiveEpoch
		f.Rev, f.Owner, f.Sweeps = 0, 0, 0
	}
	if len(p.Fires) > 0 && last >= p.NextDueMS {
		return errBadPlan
	}
	return nil
}
