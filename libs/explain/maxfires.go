package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
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

// hadLastFire tells whether max_fires had ended the timer at a due instant without a fire, before
// an edit, a pause or the deletion. All fires of the schedule are created in order, and such a
// change records what came due until then if there were more to come. So none is created after the
// last one.
//
// How many there were by then is not kept. Without a later fire a lost one looks the same, if
// the timer has had so many by now. One that is followed by another is still found.
func (f *Facts) hadLastFire(a *Answer, v *Version) bool {
	most, endMS := v.Definition.Schedule.MaxFires, f.stretchEnd(v, a.AtMS)
	if most == 0 || endMS == timer.NeverMS || f.Timer != nil && f.Timer.FiresCreated < most ||
		endMS >= f.ToMS && f.goesOn || f.hasFire(a.AtMS, endMS) {
		return false
	}
	a.Code = MaxFires
	a.Text = fmt.Sprintf(
		"By then the timer had its %s (max_fires): no later one was created until %s.",
		count(most, "fire"),
		instant(endMS),
	)
	return true
}

// stretchEnd returns until when a version stays in force and the timer active, from an instant on.
func (f *Facts) stretchEnd(v *Version, atMS int64) int64 {
	endMS := v.untilMS
	for _, period := range f.Inactivities {
		if period.FromMS > atMS {
			endMS = min(endMS, period.FromMS)
		}
	}
	if f.State.Status == timer.StatusDeleted {
		endMS = min(endMS, f.State.InactiveSinceMS)
	}
	return endMS
}

// hasFire reports whether a fire of the schedule is known that is due in [fromMS, toMS].
func (f *Facts) hasFire(fromMS, toMS int64) bool {
	among := func(id timer.FireID) bool {
		return id.Series == 0 && id.DueMS >= fromMS && id.DueMS <= toMS
	}
	return slices.ContainsFunc(f.Open, func(o timer.Fire) bool { return among(o.FireID) }) ||
		slices.ContainsFunc(f.Outcomes, func(o timer.Outcome) bool { return among(o.FireID) })
}

// maxRest is how many instants behind the range are looked up.
const maxRest = 100

// readRest looks whether the schedule has fires behind the range, within the stretch of the last
// instant, as hadLastFire needs to know. The fires of earlier instants of the range are known.
func (f *Facts) readRest(ctx context.Context, s Store) error {
	v, _ := f.version(f.ToMS - 1)
	if v == nil || v.parsed == nil || v.Definition.Schedule.MaxFires == 0 ||
		v.Definition.Schedule.Kind == timer.KindFixedDelay {
		return nil
	}
	endMS := f.stretchEnd(v, f.ToMS-1)
	if endMS == timer.NeverMS || endMS < f.ToMS {
		return nil
	}
	var ids []timer.FireID
	at := v.parsed.Next(f.ToMS-1, f.anchor())
	for ; at <= endMS && len(ids) < maxRest; at = v.parsed.Next(at, f.anchor()) {
		ids = append(ids, timer.FireID{Timer: f.ID, DueMS: at})
	}
	if len(ids) == 0 {
		return nil
	}
	open, err := s.OpenAmong(ctx, ids)
	if f.goesOn = len(open) > 0; f.goesOn || err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	before := timer.FireID{Timer: f.ID, DueMS: ids[len(ids)-1].DueMS + 1}
	for range maxPages {
		page, err := s.History(ctx, f.App, f.ID, before, store.MaxBatch)
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range page {
			if page[i].Series == 0 || page[i].DueMS < f.ToMS {
				f.goesOn = page[i].DueMS >= f.ToMS
				return nil
			}
		}
		if len(page) < store.MaxBatch {
			return nil
		}
		before = page[len(page)-1].FireID
	}
	f.goesOn = true // too many fires of requests to know
	return nil
}
