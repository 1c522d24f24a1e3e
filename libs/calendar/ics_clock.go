package calendar

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/zone"
)

// clock is the wall clock of a zone: stretches of constant offset, ascending. The first begins
// before every instant. It is immutable.
type clock struct {
	starts  []int64 // unix seconds
	offsets []int64 // seconds east of UTC; offsets[i] applies from starts[i]
}

var utc = &clock{starts: []int64{-1 << 60}, offsets: []int64{0}}

// clockOf returns the clock of an IANA name, or nil if there is no such zone.
func clockOf(name string) *clock {
	if name == "" {
		return nil
	}
	z, err := zone.Load(name)
	if err != nil {
		return nil
	}
	c := &clock{starts: make([]int64, z.Len()), offsets: make([]int64, z.Len())}
	for i := range c.starts {
		c.starts[i], c.offsets[i] = z.Start(i), z.Offset(i)
	}
	return c
}

// unix returns the instant of a local time. If it occurs twice, that is the first. A missing local
// time uses the offset before the gap (RFC 5545, 3.3.5). So the midnight of a day without one is
// one o'clock.
func (c *clock) unix(local int64) int64 {
	i := sort.Search(
		len(c.starts)-1,
		func(k int) bool { return c.starts[k+1]+c.offsets[k] > local },
	)
	at := local - c.offsets[i]
	if at < c.starts[i] && i > 0 {
		at = local - c.offsets[i-1]
	}
	return at
}

// local returns the local time at an instant.
func (c *clock) local(unix int64) int64 {
	i, found := slices.BinarySearch(c.starts, unix)
	if !found {
		i--
	}
	return unix + c.offsets[max(i, 0)]
}

// icsZone is a VTIMEZONE.
type icsZone struct {
	icsEvent // its properties

	changes []icsEvent // STANDARD and DAYLIGHT
}

// zonesByID returns the zones by TZID, the first of each.
func (o *icsObject) zonesByID() map[string]*icsZone {
	out := make(map[string]*icsZone, len(o.zones))
	for i := range o.zones {
		if id := o.zones[i].text("TZID"); out[id] == nil {
			out[id] = &o.zones[i]
		}
	}
	return out
}

// clock returns the clock of a TZID: that of the IANA zone of that name, else of the file's
// VTIMEZONE. It returns nil for an unknown name, and an error for an invalid VTIMEZONE.
func (c *icsFile) clock(name string) (*clock, error) {
	if known, ok := c.clocks[name]; ok {
		return known, nil
	}
	found := clockOf(strings.TrimPrefix(name, "/"))
	if own := c.zones[name]; found == nil && own != nil {
		var err error
		if found, err = c.ownClock(own); err != nil {
			return nil, err
		}
	}
	c.clocks[name] = found
	return found, nil
}

// onset is a change of the offset in a VTIMEZONE.
type onset struct{ at, from, to int64 }

func (c *icsFile) ownClock(z *icsZone) (*clock, error) {
	var all []onset
	for i := range z.changes {
		more, err := c.onsets(&z.changes[i])
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf(
			"line %d: expected a STANDARD or a DAYLIGHT in the VTIMEZONE, found none",
			z.line,
		)
	}
	slices.SortStableFunc(all, func(a, b onset) int { return int(min(max(a.at-b.at, -1), 1)) })
	own := &clock{starts: []int64{utc.starts[0]}, offsets: []int64{all[0].from}}
	for _, o := range all {
		if n := len(own.starts) - 1; own.starts[n] == o.at {
			own.offsets[n] = o.to // the last of two simultaneous changes
		} else {
			own.starts, own.offsets = append(own.starts, o.at), append(own.offsets, o.to)
		}
	}
	return own, nil
}

// onsets returns when a STANDARD or DAYLIGHT begins. Its DTSTART, RDATEs and rule are local times
// in the offset before the change.
func (c *icsFile) onsets(e *icsEvent) ([]onset, error) {
	p := e.first("DTSTART")
	if p == nil {
		return nil, missing(e, "DTSTART", "DTSTART:19701025T030000")
	}
	from, err := offsetOf(e, "TZOFFSETFROM")
	if err != nil {
		return nil, err
	}
	to, err := offsetOf(e, "TZOFFSETTO")
	if err != nil {
		return nil, err
	}
	before := &clock{starts: utc.starts, offsets: []int64{from}}
	start, err := c.moment(p, p.value)
	if err != nil {
		return nil, err
	}
	start.in = before
	out := []onset{{start.unix(), from, to}}
	for _, p := range e.all("RDATE") {
		for text := range strings.SplitSeq(p.value, ",") {
			at, err := c.moment(p, text)
			if err != nil {
				return nil, err
			}
			out = append(out, onset{before.unix(at.local), from, to})
		}
	}
	for _, p := range e.all("RRULE") {
		err := c.recur(p, start, maxYear, func(at moment, _ bool) error {
			out = append(out, onset{at.unix(), from, to})
			return c.addWork(1)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

var offsetForm = regexp.MustCompile(`^([+-])([01]\d|2[0-3])([0-5]\d)([0-5]\d)?$`)

// offsetOf returns seconds east of UTC.
func offsetOf(e *icsEvent, name string) (int64, error) {
	p := e.first(name)
	if p == nil {
		return 0, missing(e, name, name+":+0100")
	}
	m := offsetForm.FindStringSubmatch(strings.TrimSpace(p.value))
	if m == nil {
		return 0, p.wrong("expected an offset such as +0100 or -033000, found %q", clip(p.value))
	}
	var total int64
	for i, unit := range []int64{secondsPerHour, 60, 1} {
		if n, err := strconv.ParseInt(m[i+2], 10, 64); err == nil {
			total += n * unit
		}
	}
	if m[1] == "-" {
		total = -total
	}
	return total, nil
}
