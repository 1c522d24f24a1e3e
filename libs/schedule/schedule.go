package schedule

import (
	"time"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Parsed is a schedule made ready to compute instants. It gives the same answers for ever, and is
// safe for concurrent use.
type Parsed struct {
	kind        timer.ScheduleKind
	parts       []instants // one for each spec of a cron, else one
	activeParts []instants // those of them that calendars may allow; see setActiveParts
	zone        *zone.Table

	startMS, endMS int64 // due instants lie in [startMS, endMS)
	everyMS        int64 // of a fixed delay

	calendars  *calendar.Set // nil where there are none
	excluded   timer.ExcludedPolicy
	movedCache *stretches // where excluded instants move
}

// instants is one source of due instants.
type instants interface {
	// next returns the first instant (unix ms) after afterMS, or timer.NeverMS.
	next(afterMS, anchorMS int64) int64
}

// Inputs are what a schedule needs besides itself.
type Inputs struct {
	Timer     timer.ID         // the seed of H; 0 where there is no timer yet
	Calendars []timer.Calendar // the contents of Schedule.Calendars, in its order
	Zones     *zone.Database   // where time zones come from; nil is zone.Default
}

// Parse makes a schedule ready. It refuses what Check refuses, but for cron expressions that can be
// read and never match; those have no instants. Its error is a *timer.Error (invalid) that names
// the field.
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
	switch {
	case p.calendars == nil:
	case p.excluded == timer.ExcludedNext, p.excluded == timer.ExcludedPrevious:
		p.movedCache = new(stretches)
	default:
		p.setActiveParts()
	}
	return p, nil
}

// parse is Parse without the calendars' contents.
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
	default:
		return p, p.addSpecs(s, in.Timer)
	}
	return p, nil
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

// newInterval returns the instants of a fixed rate. An anchor that the schedule names is due
// itself, if there is no phase; the first activation is not: whoever asks for every 10 minutes gets
// the first after 10 minutes.
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

// Next returns the first due instant (unix ms) strictly after afterMS, timer.NeverMS when there is
// none. anchorMS is where relative schedules count from, the timer's first activation: a delay ends
// so long after it, @every and an interval without an anchor of its own are due in steps from it,
// and an instant before it is due at the anchor itself. For a fixed delay it is the end of the last
// fire, and there is one instant only. Instants that several specs have in common come once.
//
// The due instants are a set that does not depend on afterMS: whoever asks in steps gets what one
// who asks at once gets.
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

// candidate returns the first instant after afterMS that lies in the window, whatever calendars say
// of it.
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

// Location returns the zone that the schedule's local times are of.
func (p *Parsed) Location() *time.Location { return p.zone.Location() }
