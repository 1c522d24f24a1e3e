package scheduling

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// planRetryDelay postpones a timer whose plan failed without naming a later instant. It must not be
// due again at once.
const planRetryDelay = time.Minute

// errBadPlan means that a planner broke the rules that keep a fire from being inserted twice.
var errBadPlan = errors.New(
	"the plan moves back, repeats a fire, overlaps, or is for another timer",
)

// checkPlan verifies that no due instant of a timer is planned twice. Fires and skips must lie
// between the old next_due and the new one, each once. A violation is a bug in the planner.
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
		f.Rev, f.Owner, f.TargetBits = 0, 0, 0
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

// checkSkip verifies a stretch that must begin after last, and completes its fields.
func checkSkip(t *timer.Timer, o *timer.Outcome, last, nowMS int64) error {
	if o.Timer != t.ID || o.Series != 0 || o.DueMS <= last || o.UntilMS < o.DueMS || o.Count < 1 {
		return errBadPlan
	}
	o.AppID, o.Version, o.Epoch = t.AppID, t.Version, t.ActiveEpoch
	o.Rev, o.Owner = 0, store.SystemSession
	o.Kind, o.FinishedMS = timer.Skipped, nowMS
	return nil
}

// cutPlan keeps the part of a plan up to an instant, and moves next_due back to the first instant
// after it.
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

// plannedFires returns how many fires a plan stands for.
func plannedFires(p *store.Plan) (n int64) {
	for i := range p.Skips {
		n += p.Skips[i].Count
	}
	return n + int64(len(p.Fires))
}
