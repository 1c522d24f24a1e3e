package sqlstore

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// planRetryDelay is how much later a timer is looked at again whose plan failed and named no later
// instant: it must not come up at once and for ever.
const planRetryDelay = time.Minute

// errBadPlan says that a planner broke the promises that keep a fire from being inserted twice.
var errBadPlan = errors.New("the plan goes back, repeats itself, overlaps, or is another timer's")

// checkPlan sees to it that no due instant of a timer comes up twice: fires and skips lie between
// the old next_due and the new one, each once. What it refuses would be a fault of the program's.
func checkPlan(t *timer.Timer, p *store.Plan, nowMS int64) error {
	if p.NextDueMS < t.NextDueMS {
		return errBadPlan
	}
	slices.SortFunc(p.Fires, timer.CompareFires)
	slices.SortFunc(p.Skips, func(a, b timer.Outcome) int { return cmp.Compare(a.DueMS, b.DueMS) })
	last, skips := t.NextDueMS-1, p.Skips
	for i := range p.Fires {
		f := &p.Fires[i]
		for len(skips) > 0 && skips[0].DueMS <= f.DueMS {
			if err := checkSkip(t, &skips[0], last, nowMS); err != nil {
				return err
			}
			last, skips = skips[0].UntilMS, skips[1:]
		}
		if f.Timer != t.ID || f.Series != 0 || f.DueMS <= last {
			return errBadPlan
		}
		last = f.DueMS
		f.AppID, f.Version, f.Epoch = t.AppID, t.Version, t.ActiveEpoch
		f.Rev, f.Owner, f.Sweeps, f.TargetBits = 0, 0, 0, 0
	}
	for i := range skips {
		if err := checkSkip(t, &skips[i], last, nowMS); err != nil {
			return err
		}
		last = skips[i].UntilMS
	}
	if len(p.Fires)+len(p.Skips) > 0 && last >= p.NextDueMS {
		return errBadPlan
	}
	return nil
}

// checkSkip checks a stretch that begins behind last, and completes it.
func checkSkip(t *timer.Timer, o *timer.Outcome, last, nowMS int64) error {
	if o.Timer != t.ID || o.Series != 0 || o.DueMS <= last || o.UntilMS < o.DueMS || o.Count < 1 {
		return errBadPlan
	}
	o.AppID, o.Version, o.Epoch = t.AppID, t.Version, t.ActiveEpoch
	o.Rev, o.Owner = 0, store.SystemSession
	o.Kind, o.FinishedMS = timer.Skipped, nowMS
	return nil
}

// cutPlan takes of a plan what lies up to an instant, and moves its next_due back to the first that
// does not.
func cutPlan(p *store.Plan, untilMS int64) {
	n := 0
	for n < len(p.Fires) && p.Fires[n].DueMS <= untilMS {
		n++
	}
	if n < len(p.Fires) {
		p.NextDueMS = p.Fires[n].DueMS
	}
	p.Fires = p.Fires[:n]
	n = 0
	for n < len(p.Skips) && p.Skips[n].UntilMS <= untilMS {
		n++
	}
	if n < len(p.Skips) {
		p.NextDueMS = min(p.NextDueMS, p.Skips[n].DueMS)
	}
	p.Skips = p.Skips[:n]
}

// plannedFires is how many fires of a timer a plan stands for.
func plannedFires(p *store.Plan) (n int64) {
	for i := range p.Skips {
		n += p.Skips[i].Count
	}
	return n + int64(len(p.Fires))
}
