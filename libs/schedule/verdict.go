package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Exclusion is why an instant is not due by a schedule.
type Exclusion string

// The exclusions.
const (
	ExclusionNone Exclusion = ""
	// NotInSchedule means that no spec has the instant.
	NotInSchedule Exclusion = "not_in_schedule"
	// BeforeStart and AfterEnd mean that the instant is outside StartAt and EndAt.
	BeforeStart Exclusion = "before_start"
	AfterEnd    Exclusion = "after_end"
	// ByCalendar means that a calendar excludes the instant, and no policy moves it.
	ByCalendar Exclusion = "excluded_by_calendar"
	// MovedByCalendar means that the fire of the instant is due at another instant.
	MovedByCalendar Exclusion = "moved_by_calendar"
	// ByGap means that the local time does not exist, because clocks were set forward over it.
	ByGap Exclusion = "clock_change_gap"
	// ByOverlap means that the local time occurs twice, and the policy selects the other pass.
	ByOverlap Exclusion = "clock_change_overlap"
)

// Verdict tells whether an instant is due by a schedule, and if not, why.
type Verdict struct {
	Due      bool
	Excluded Exclusion // why it is not due
	Specs    []int     // which of the specs have the instant, before calendars; 0 of other kinds
	Local    string    // the instant on the wall clock of the schedule's zone, in RFC 3339
	Rule     string    // of a calendar: which rule excludes the instant
	MovedTo  int64     // of MovedByCalendar and of a shifted gap: where it is due; else 0
	// BeforeMS and AfterMS are the nearest due instants of one that is not due. timer.NeverMS means
	// that there is none.
	BeforeMS, AfterMS int64
}

// Judge tells whether an instant (Unix ms) is due. The schedule of a fixed delay has one instant,
// after the end of the last call: anchorMS. MaxFires is ignored.
func (p *Parsed) Judge(atMS, anchorMS int64) Verdict {
	v := Verdict{
		Local:    p.local(time.UnixMilli(atMS).UTC()),
		Due:      p.Next(atMS-1, anchorMS) == atMS,
		BeforeMS: timer.NeverMS,
		AfterMS:  timer.NeverMS,
	}
	for i, part := range p.parts {
		if part.next(atMS-1, anchorMS) == atMS {
			v.Specs = append(v.Specs, i)
		}
	}
	if v.Due {
		return v
	}
	v.BeforeMS, v.AfterMS = p.Before(atMS, anchorMS), p.Next(atMS, anchorMS)
	p.exclude(&v, atMS, anchorMS)
	return v
}

// exclude tells why an instant is not due.
func (p *Parsed) exclude(v *Verdict, atMS, anchorMS int64) {
	switch {
	case atMS < p.startMS:
		v.Excluded = BeforeStart
	case atMS >= p.endMS:
		v.Excluded = AfterEnd
	case len(v.Specs) > 0 && p.calendars != nil:
		p.excludeByCalendar(v, atMS, anchorMS)
	case p.inGap(v, atMS, anchorMS), p.inOverlap(v, atMS):
	default:
		v.Excluded = NotInSchedule
	}
}

func (p *Parsed) excludeByCalendar(v *Verdict, atMS, anchorMS int64) {
	second := floorDiv(atMS, 1000)
	v.Excluded, v.Rule = ByCalendar, p.calendars.Why(second)
	if p.excluded != timer.ExcludedNext && p.excluded != timer.ExcludedPrevious {
		return
	}
	open := p.calendars.NextAllowed(second)
	to := p.move(atMS, p.stretchStart(second), open, anchorMS)
	if _, found := slices.BinarySearch(p.moved(second, open, anchorMS), to); found {
		v.Excluded, v.MovedTo = MovedByCalendar, to
	}
}

// inGap looks for a local time that does not exist, counted with the offset before the gap.
func (p *Parsed) inGap(v *Verdict, atMS, anchorMS int64) bool {
	for i, part := range p.parts {
		w, ok := part.(*wall)
		if !ok || w.everyHour || atMS%1000 != 0 {
			continue
		}
		at := atMS / 1000
		now := w.zone.At(at)
		if now == 0 {
			continue
		}
		begin, was := w.zone.Start(now), w.zone.Offset(now-1)
		if at+was >= begin+w.zone.Offset(now) || w.cron.next(at+was) != at+was {
			continue
		}
		v.Excluded, v.Specs = ByGap, []int{i}
		v.Local = localText(time.Unix(at, 0).UTC(), was)
		switch to := begin * 1000; {
		case !w.shift:
		case p.Next(to-1, anchorMS) == to:
			v.MovedTo = to
		case p.calendars != nil && !p.calendars.Allows(begin):
			p.excludeByCalendar(v, to, anchorMS)
		}
		return true
	}
	return false
}

// inOverlap looks for a repeated local time in the pass that the policy drops.
func (p *Parsed) inOverlap(v *Verdict, atMS int64) bool {
	for i, part := range p.parts {
		w, ok := part.(*wall)
		if !ok || !w.first && !w.second {
			continue
		}
		both := *w
		both.first, both.second = false, false
		if both.next(atMS-1, 0) != atMS {
			continue
		}
		v.Excluded, v.Specs = ByOverlap, []int{i}
		if at := floorDiv(atMS, 1000); p.calendars != nil && !p.calendars.Allows(at) {
			v.Excluded, v.Rule = ByCalendar, p.calendars.Why(at)
		}
		return true
	}
	return false
}

// Before returns the last due instant (Unix ms) before atMS, or timer.NeverMS. It halves the range
// that may have a later one, and searches its second half. All halves together cost no more than
// the whole, unless calendars may move instants: see nextUpTo.
func (p *Parsed) Before(atMS, anchorMS int64) int64 {
	last, until := p.nextUpTo(-1, atMS-1, anchorMS), atMS-1
	if last == timer.NeverMS {
		return last
	}
	for last < until { // nothing is due between until and atMS
		middle := last + (until-last)/2
		if due := p.nextUpTo(middle, until, anchorMS); due != timer.NeverMS {
			last = due
		} else {
			until = middle
		}
	}
	return last
}

// nextUpTo is Next up to an instant, and timer.NeverMS behind it. It does not search behind it,
// unless calendars may move instants from there.
func (p *Parsed) nextUpTo(afterMS, untilMS, anchorMS int64) int64 {
	if p.movedCache == nil {
		bounded := *p
		bounded.endMS = min(p.endMS, untilMS+1)
		return bounded.Next(afterMS, anchorMS)
	}
	if due := p.Next(afterMS, anchorMS); due <= untilMS {
		return due
	}
	return timer.NeverMS
}

// Instants returns the due and the excluded instants of the schedule in [fromMS, toMS), ascending,
// limit of them at the most. An instant that a calendar, a gap or an overlap excludes is among
// them; one outside the window is not.
func (p *Parsed) Instants(
	ctx context.Context,
	fromMS, toMS, anchorMS int64,
	limit int,
) ([]int64, error) {
	var out []int64
	for at := p.Next(fromMS-1, anchorMS); at < toMS && len(out) < limit; at = p.Next(at, anchorMS) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("listing instants: %w", err)
		}
		out = append(out, at)
	}
	last := toMS - 1
	if len(out) == limit {
		last = out[limit-1]
	}
	excluded, err := p.exclusions(ctx, fromMS-1, last, anchorMS, limit)
	if err != nil {
		return nil, err
	}
	for _, x := range excluded {
		out = append(out, x.Due.UnixMilli())
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), limit)], nil
}
