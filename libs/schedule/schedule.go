package schedule

import (
	"fmt"
	"time"
	_ "time/tzdata" // the same zones in every process, whatever the host has installed

	"github.com/carillon-timer/carillon/libs/timer"
)

// Parsed is a schedule made ready to compute instants. It is immutable and safe for concurrent use.
type Parsed struct {
	parts []instants
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
}

// Parse makes a schedule ready. It refuses what Check refuses, but for cron expressions that can be read and never match; those
// have no instants. Its error is a *timer.Error (invalid) that names the field.
func Parse(s timer.Schedule, in Inputs) (*Parsed, error) {
	_ = in
	if err := checkKind(&s); err != nil {
		return nil, err
	}
	switch s.Kind {
	case timer.KindAt:
		if err := checkAt(s.At); err != nil {
			return nil, err
		}
		return &Parsed{parts: []instants{once{atMS: ceilMS(*s.At)}}}, nil
	case timer.KindDelay:
		if err := checkDelay(time.Duration(s.Delay)); err != nil {
			return nil, err
		}
		return &Parsed{parts: []instants{delay{ms: ceilDurationMS(time.Duration(s.Delay))}}}, nil
	default:
		return parseCron(s.Specs, s.Zone)
	}
}

func parseCron(specs []string, zone string) (*Parsed, error) {
	if err := checkSpecs(specs); err != nil {
		return nil, err
	}
	loc, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	p := &Parsed{parts: make([]instants, 0, len(specs))}
	for i, spec := range specs {
		d, err := parseSpec(spec, loc)
		if err != nil {
			return nil, timer.Invalid(specField(i), fmt.Sprintf("%q is not a cron expression: %v", spec, err))
		}
		p.parts = append(p.parts, d)
	}
	return p, nil
}

func loadZone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // "Local" would differ from host to host
		return nil, timer.Invalid("schedule.time_zone", fmt.Sprintf("%q is not a time zone: it is an IANA name such as \"Europe/Berlin\"; leave it out for UTC", name))
	}
	return loc, nil
}

// Next returns the first due instant (unix ms) strictly after afterMS, timer.NeverMS when there is none. anchorMS is where relative
// schedules count from, the timer's activation or creation: a delay ends so long after it, @every is due in steps from it, and an
// instant before it is due at the anchor itself. Instants that several specs have in common come once.
func (p *Parsed) Next(afterMS, anchorMS int64) int64 {
	first := timer.NeverMS
	for _, d := range p.parts {
		first = min(first, d.next(afterMS, anchorMS))
	}
	return first
}

type once struct{ atMS int64 }

func (o once) next(afterMS, anchorMS int64) int64 {
	return ifAfter(max(o.atMS, anchorMS), afterMS)
}

type delay struct{ ms int64 }

func (d delay) next(afterMS, anchorMS int64) int64 {
	return ifAfter(anchorMS+d.ms, afterMS)
}

// every is due at anchor + k × ms, k from 1.
type every struct{ ms int64 }

func (e every) next(afterMS, anchorMS int64) int64 {
	if afterMS >= maxMS || anchorMS >= maxMS {
		return timer.NeverMS
	}
	k := int64(1)
	if afterMS > anchorMS {
		k += (afterMS - anchorMS) / e.ms
	}
	return anchorMS + k*e.ms
}

func ifAfter(ms, afterMS int64) int64 {
	if ms > afterMS {
		return ms
	}
	return timer.NeverMS
}

// ceilMS rounds up: a fire is never early, not even by a part of a millisecond.
func ceilMS(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

func ceilDurationMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
