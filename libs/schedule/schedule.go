package schedule

import (
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Parsed is a schedule that is ready to compute instants. Its results never change. It is safe for
// concurrent use.
type Parsed struct {
	kind  timer.ScheduleKind
	parts []instants // one per spec of a cron, otherwise one
	zone  *zone.Table

	startMS, endMS int64 // due instants are in [startMS, endMS)
	everyMS        int64 // of a fixed delay

	calendars  *calendar.Set // nil means none
	excluded   timer.ExcludedPolicy
	movedCache *stretches // cache of the targets of moved instants
}

// instants is one source of due instants.
type instants interface {
	// next returns the first instant (unix ms) after afterMS, or timer.NeverMS.
	next(afterMS, anchorMS int64) int64
}

// Inputs are what a schedule needs in addition to itself.
type Inputs struct {
	Timer     timer.ID         // seed of H; 0 if there is no timer yet
	Calendars []timer.Calendar // contents of Schedule.Calendars, in the same order
	Zones     *zone.Database   // source of time zones; nil means zone.Default
}

// Parse prepares a schedule. It rejects what Check rejects, except specs that never match; these
// have no instants. Its error is a *timer.Error (invalid) that names the field.
func Parse(s timer.Schedule, in Inputs) (*Parsed, error) {
	p, err := parse(&s, in)
	if err != nil {
		return nil, err
	}
	if len(in.Calendars) != len(s.Calendars) {
		return nil, timer.Invalid(
			"schedule.calendars",
			"expected calendars of the app, found names of none",
		)
	}
	rules := make([]*calendar.Rules, len(in.Calendars))
	for i := range in.Calendars {
		if rules[i], err = calendar.New(&in.Calendars[i], p.zone); err != nil {
			return nil, err
		}
	}
	if len(rules) > 0 {
		p.calendars = calendar.NewSet(rules...)
	}
	if p.calendars != nil &&
		(p.excluded == timer.ExcludedNext || p.excluded == timer.ExcludedPrevious) {
		p.movedCache = new(stretches)
	}
	return p, nil
}

// parse is Parse without the contents of calendars.
func parse(s *timer.Schedule, in Inputs) (*Parsed, error) {
	if err := checkFields(s); err != nil {
		return nil, err
	}
	if in.Zones == nil {
		in.Zones = zone.Default()
	}
	z, err := in.Zones.Load(s.Zone)
	if err != nil {
		return nil, timer.Invalid("schedule.time_zone", err.Error())
	}
	p := &Parsed{kind: s.Kind, zone: z, startMS: -1 << 62, endMS: maxMS, excluded: s.Excluded}
	if s.StartAt != nil {
		p.startMS = ceilMS(*s.StartAt)
	}
	if s.EndAt != nil {
		p.endMS = min(maxMS, ceilMS(*s.EndAt))
	}
	switch s.Kind {
	case timer.KindAt:
		p.parts, p.endMS = []instants{once{atMS: ceilMS(*s.At)}}, timer.NeverMS
	case timer.KindDelay:
		p.parts, p.endMS = []instants{
			delay{ms: ceilDurationMS(time.Duration(s.Delay))},
		}, timer.NeverMS
	case timer.KindFixedDelay:
		p.everyMS = ceilDurationMS(time.Duration(s.Every))
	case timer.KindInterval:
		p.parts = []instants{newInterval(s)}
	case timer.KindCron:
		return p, p.addSpecs(s, in.Timer)
	}
	return p, nil // checkKind refuses other kinds
}

func (p *Parsed) addSpecs(s *timer.Schedule, seed timer.ID) error {
	for i, text := range s.Specs {
		spec, err := parseSpec(text, seed)
		if err != nil {
			return timer.Invalid(specField(i), err.Error())
		}
		if spec.cron == nil {
			ms := spec.every.Milliseconds()
			p.parts = append(p.parts, every{ms: ms, offset: ms})
			continue
		}
		p.parts = append(p.parts, newWall(spec.cron, p.zone, s))
	}
	return nil
}

// newInterval returns the instants of a fixed rate. An explicit anchor is due itself if there is no
// phase. The first activation is not: an interval of 10 minutes is first due after 10 minutes.
func newInterval(s *timer.Schedule) every {
	e := every{
		ms:     time.Duration(s.Every).Milliseconds(),
		offset: time.Duration(s.Phase).Milliseconds(),
	}
	switch {
	case s.Anchor != nil:
		e.fixed, e.anchor = true, ceilMS(*s.Anchor)
	case e.offset == 0:
		e.offset = e.ms
	}
	return e
}

// Next returns the first due instant (Unix ms) strictly after afterMS, or timer.NeverMS. anchorMS
// is the origin of relative schedules: the timer's first activation. A delay ends that long after
// it. @every, and an interval without its own anchor, step from it. An "at" before it is due at the
// anchor. For a fixed delay it is the end of the last fire, and there is only one instant.
//
// The due instants are a set that does not depend on afterMS, and instants that several specs share
// occur once.
func (p *Parsed) Next(afterMS, anchorMS int64) int64 {
	var due int64
	switch {
	case p.kind == timer.KindFixedDelay:
		due = ifAfter(p.afterDelay(anchorMS), afterMS)
	case p.calendars == nil:
		due = p.candidate(afterMS, anchorMS)
	default:
		due = p.allowed(afterMS, anchorMS)
	}
	if due >= p.endMS {
		return timer.NeverMS
	}
	return due
}

// CountsFromActivation returns whether the schedule has no instants of its own before the first
// activation of its timer: a delay, an interval without an anchor, @every, and a fixed delay.
func (p *Parsed) CountsFromActivation() bool {
	return p.kind == timer.KindFixedDelay || slices.ContainsFunc(p.parts, func(part instants) bool {
		switch part := part.(type) {
		case delay:
			return true
		case every:
			return !part.fixed
		}
		return false
	})
}

// candidate returns the first instant after afterMS in the window, ignoring calendars.
func (p *Parsed) candidate(afterMS, anchorMS int64) int64 {
	return p.firstOf(p.parts, afterMS, anchorMS)
}

func (p *Parsed) firstOf(parts []instants, afterMS, anchorMS int64) int64 {
	afterMS = max(afterMS, p.startMS-1)
	first := timer.NeverMS
	for _, d := range parts {
		first = min(first, d.next(afterMS, anchorMS))
	}
	if first >= p.endMS {
		return timer.NeverMS
	}
	return first
}

// Location returns the zone of the schedule's local times.
func (p *Parsed) Location() *time.Location { return p.zone.Location() }
