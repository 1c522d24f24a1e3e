package calendar

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// moments is a set of occurrences, as given by EXDATE or RECURRENCE-ID.
type moments struct {
	instants map[int64]bool // times with a zone
	locals   map[int64]bool // times without a zone, in the zone of the event
	dates    map[int64]bool // dates; for events with times, all occurrences of the date
	timed    map[int64]bool // dates of times, for events with dates
}

func (s *moments) add(m moment) {
	if s.instants == nil {
		*s = moments{map[int64]bool{}, map[int64]bool{}, map[int64]bool{}, map[int64]bool{}}
	}
	if m.date {
		s.dates[floorDay(m.local)] = true
		return
	}
	s.timed[floorDay(m.local)] = true
	if m.in == nil {
		s.locals[m.local] = true
	} else {
		s.instants[m.unix()] = true
	}
}

// has reports whether an occurrence is in the set. A date that refers to times, or a time that
// refers to dates, means the whole day.
func (s *moments) has(m moment) bool {
	day := floorDay(m.local)
	return s.dates[day] || m.date && s.timed[day] || s.names(m)
}

// names reports whether the set contains an occurrence in its own form.
func (s *moments) names(m moment) bool {
	if m.date {
		return s.dates[floorDay(m.local)]
	}
	return s.locals[m.local] || s.instants[m.unix()]
}

// changes are the modifications of an event by the events with a RECURRENCE-ID and the same UID.
type changes struct {
	// excluded are the EXDATEs. If several events share a UID, each has its own in addition.
	excluded  moments
	replaced  moments
	later     []laterChange // ascending
	events    map[moment]*icsEvent
	effective map[*icsEvent]bool // the events that count
}

// laterChange is a RANGE=THISANDFUTURE. It changes all occurrences from one on, except those with
// their own event.
type laterChange struct {
	from      moment
	to        occurrence
	cancelled bool
}

// maxLater limits the cost of an occurrence, which checks all laterChanges.
const maxLater = 100

// apply returns the changed occurrence: the latest laterChange before it gives the shift and the
// length.
func (ch *changes) apply(one occurrence) (changed occurrence, cancelled bool) {
	for _, l := range slices.Backward(ch.later) {
		if l.from.by(one.at.in) <= one.at.local {
			to := l.to.at
			to.local += one.at.by(to.in) - l.from.by(to.in)
			return occurrence{to, l.to.length}, l.cancelled
		}
	}
	return one, false
}

// readChanges groups the events with a RECURRENCE-ID by UID.
func (c *icsFile) readChanges(events []icsEvent) (map[string]*changes, error) {
	out := map[string]*changes{}
	for i := range events {
		e := &events[i]
		uid := e.text("UID")
		if out[uid] == nil {
			out[uid] = &changes{events: map[moment]*icsEvent{}, effective: map[*icsEvent]bool{}}
		}
		if err := c.readChange(out[uid], e); err != nil {
			return nil, eventError(e, err)
		}
	}
	for i := range events {
		if e := &events[i]; out[e.text("UID")].effective[e] {
			if err := c.readLater(out[e.text("UID")], e); err != nil {
				return nil, eventError(e, err)
			}
		}
	}
	for _, ch := range out {
		slices.SortStableFunc(
			ch.later,
			func(a, b laterChange) int { return cmp.Compare(a.from.unix(), b.from.unix()) },
		)
	}
	return out, nil
}

// readChange reads the EXDATEs of an event, or that it changes one occurrence.
func (c *icsFile) readChange(ch *changes, e *icsEvent) error {
	p := e.first("RECURRENCE-ID")
	if p != nil {
		at, err := c.moment(p, p.value)
		if err == nil {
			ch.add(at, e)
		}
		return err
	}
	return c.leaveOut(e, &ch.excluded)
}

// leaveOut adds the EXDATEs of an event to a set.
func (c *icsFile) leaveOut(e *icsEvent, from *moments) error {
	for _, p := range e.all("EXDATE") {
		dates, err := c.occurrences(p, 0)
		if err != nil {
			return err
		}
		for _, one := range dates {
			from.add(one.at)
		}
	}
	return nil
}

// add adds an event. If several change the same occurrence, the one with the highest SEQUENCE
// counts, and the last of equal ones.
func (ch *changes) add(at moment, e *icsEvent) {
	ch.replaced.add(at)
	if at.in != nil {
		at = moment{local: at.unix(), in: utc}
	}
	before := ch.events[at]
	if before != nil && before.sequence() > e.sequence() {
		return
	}
	delete(ch.effective, before)
	ch.events[at], ch.effective[e] = e, true
}

// readLater reads how an event changes the occurrences after its own.
func (c *icsFile) readLater(ch *changes, e *icsEvent) error {
	p := e.first("RECURRENCE-ID")
	at, err := c.moment(p, p.value)
	if err != nil {
		return err
	}
	switch which := p.params["RANGE"]; {
	case which == "":
		return nil
	case !strings.EqualFold(which, "THISANDFUTURE"):
		return p.wrong("expected RANGE=THISANDFUTURE, or no RANGE, found %q", clip(which))
	}
	if len(ch.later) == maxLater {
		return p.wrong("expected at most %d events with RANGE for one UID, found another", maxLater)
	}
	l := laterChange{from: at, cancelled: e.cancelled()}
	if !l.cancelled {
		if l.to, err = c.occurrence(e); err != nil {
			return err
		}
	}
	ch.later = append(ch.later, l)
	return nil
}

func (e *icsEvent) cancelled() bool { return strings.EqualFold(e.text("STATUS"), "CANCELLED") }

// sequence returns the revision of the event.
func (e *icsEvent) sequence() int {
	n, err := strconv.Atoi(strings.TrimSpace(e.text("SEQUENCE")))
	if err != nil {
		return 0
	}
	return n
}
