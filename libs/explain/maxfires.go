package explain

import (
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxFiresWalk bounds the instants that are computed to find the last one that max_fires allows.
const maxFiresWalk = 2000

// lastAllowed is the last instant that max_fires allows.
type lastAllowed struct {
	limited bool  // false: nothing is known of a last one
	atMS    int64 // timer.NeverMS: there is none
	made    bool  // all fires that max_fires allows exist, or existed
}

// excludes reports whether max_fires does not allow an instant.
func (l lastAllowed) excludes(atMS int64) bool {
	return l.limited && (l.atMS == timer.NeverMS || atMS > l.atMS)
}

// lastOf returns the last instant that max_fires allows by a version. It is known for the present
// version of a timer that is active, or that has had all its fires. Skipped fires do not count, so
// an instant that is to come may not be the last.
func (f *Facts) lastOf(v *Version) lastAllowed {
	s := &v.Definition.Schedule
	if f.Timer == nil || v.N != f.Timer.Version || s.MaxFires == 0 || v.parsed == nil {
		return lastAllowed{}
	}
	if f.last == nil {
		last := f.findLast(v)
		f.last = &last
	}
	return *f.last
}

func (f *Facts) findLast(v *Version) lastAllowed {
	t, s := f.Timer, &v.Definition.Schedule
	made := t.FiresCreated >= s.MaxFires
	switch {
	case s.Kind == timer.KindFixedDelay && made && t.LastDueMS != 0:
		return lastAllowed{limited: true, atMS: t.LastDueMS, made: true}
	case s.Kind == timer.KindFixedDelay, made && t.NextDueMS == timer.NeverMS:
		return lastAllowed{}
	case made:
		return lastAllowed{
			limited: true, atMS: v.parsed.Before(t.NextDueMS, f.anchor()), made: true,
		}
	case t.Status != timer.StatusActive, t.NextDueMS == timer.NeverMS,
		s.MaxFires-t.FiresCreated > maxFiresWalk:
		return lastAllowed{}
	}
	at := max(t.NextDueMS, t.ActiveSinceMS) - 1
	for range s.MaxFires - t.FiresCreated {
		next := v.parsed.Next(at, f.anchor())
		if next == timer.NeverMS {
			return lastAllowed{}
		}
		at = next
	}
	return lastAllowed{limited: true, atMS: at}
}

// clip removes from the nearest instants of a verdict those that max_fires does not allow.
func (f *Facts) clip(v *Version, x *schedule.Verdict) {
	last := f.lastOf(v)
	if x.AfterMS != timer.NeverMS && last.excludes(x.AfterMS) {
		x.AfterMS = timer.NeverMS
	}
	if x.BeforeMS != timer.NeverMS && last.excludes(x.BeforeMS) {
		x.BeforeMS = last.atMS
	}
}

// afterLastFire tells whether max_fires ends the timer before the instant.
func (f *Facts) afterLastFire(a *Answer, v *Version) bool {
	last := f.lastOf(v)
	most := v.Definition.Schedule.MaxFires
	// The fires of all versions count. So an earlier version had all of its own if the present one has
	// the same number, and none has come since.
	made := f.Timer != nil && most > 0 && f.Timer.FiresCreated >= most &&
		(v.N == f.Timer.Version || f.Timer.Definition.Schedule.MaxFires == most) &&
		a.AtMS >= f.RetainedFromMS && f.afterEveryFire(a.AtMS)
	if !last.excludes(a.AtMS) && !made {
		return false
	}
	a.Code = MaxFires
	a.Text = fmt.Sprintf("The timer has had its %s (max_fires).", count(most, "fire"))
	if last.limited && last.atMS != timer.NeverMS && (!last.made || last.atMS > f.NowMS) {
		a.Text = fmt.Sprintf("The timer has its %s (max_fires) up to %s, unless some are skipped.",
			count(most, "fire"), instant(last.atMS))
	}
	return true
}

// afterEveryFire reports whether no fire of the schedule is known at the instant or later.
func (f *Facts) afterEveryFire(atMS int64) bool {
	later := func(id timer.FireID) bool { return id.Series == 0 && id.DueMS >= atMS }
	return !slices.ContainsFunc(f.Open, func(o timer.Fire) bool { return later(o.FireID) }) &&
		!slices.ContainsFunc(f.Outcomes, func(o timer.Outcome) bool { return later(o.FireID) })
}
