package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// maxTimelines is how many fires of a verdict get a timeline: enough to begin a search with.
const maxTimelines = 3

// Event is something that happened to a fire, or around it.
type Event struct {
	At   time.Time
	What string
}

// BrokenFires returns the fires for which a promise was broken, sorted and distinct.
func (v *Verdict) BrokenFires() []timer.FireID {
	all := slices.Concat(v.Missing, v.Unexpected, v.NoOutcome, v.TwoOutcomes, v.wrongFires)
	for _, a := range slices.Concat(v.Early, v.Duplicates) {
		all = append(all, a.Fire)
	}
	slices.SortFunc(all, timer.CompareFireIDs)
	return slices.Compact(all)
}

// Timelines describes what happened to the first broken fires, an event a line: the due instant,
// the calls, the outcomes and the interruptions during that time. More returns further events of a
// fire, such as log lines, and may be nil.
func (v *Verdict) Timelines(e Evidence, more func(timer.FireID) []Event) string {
	broken := v.BrokenFires()
	var b strings.Builder
	for _, f := range broken[:min(maxTimelines, len(broken))] {
		events := e.eventsOf(f)
		if more != nil {
			events = append(events, more(f)...)
		}
		fmt.Fprintf(&b, "timeline of fire %s:\n", f)
		b.WriteString(format(events, time.UnixMilli(f.DueMS)))
	}
	return b.String()
}

// eventsOf returns what the evidence says about a fire.
func (e *Evidence) eventsOf(f timer.FireID) []Event {
	due := time.UnixMilli(f.DueMS)
	events := []Event{{due, "due"}}
	first, last := due, due
	add := func(at time.Time, format string, args ...any) {
		events = append(events, Event{at, fmt.Sprintf(format, args...)})
		if !at.IsZero() && at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	for i := range e.Arrivals {
		a := &e.Arrivals[i]
		if a.Fire != f {
			continue
		}
		add(a.Arrived(), "attempt %d called", a.Attempt)
		if a.DoneNS != 0 {
			add(time.Unix(0, a.DoneNS), "attempt %d answered with status %d", a.Attempt, a.Status)
		}
	}
	for i := range e.Outcomes {
		if o := &e.Outcomes[i]; o.coversFire(f) {
			what := strings.TrimSpace(fmt.Sprintf("%s %s", o.Kind, o.Reason))
			add(o.Finished, "outcome: %s after %d attempts", what, o.Attempts)
		}
	}
	const around = 10 * time.Second
	for i := range e.Interruptions {
		c := &e.Interruptions[i]
		if c.At.After(first.Add(-around)) && c.At.Before(last.Add(around)) {
			events = append(events, Event{c.At, "interruption of an executor or of the store"})
		}
	}
	return events
}

// coversFire reports whether an outcome is of a fire, or of a range with it.
func (o *Outcome) coversFire(f timer.FireID) bool {
	return o.Fire == f ||
		o.Fire.Timer == f.Timer && o.Fire.DueMS <= f.DueMS && f.DueMS <= o.UntilMS
}

// format writes events in order of time, each with its distance from the due instant. Events
// without an instant come last.
func format(events []Event, due time.Time) string {
	slices.SortStableFunc(events, func(a, b Event) int {
		if a.At.IsZero() != b.At.IsZero() {
			return -a.At.Compare(b.At)
		}
		return a.At.Compare(b.At)
	})
	var b strings.Builder
	for _, e := range events {
		if e.At.IsZero() {
			fmt.Fprintf(&b, "  %12s %10s  %s\n", "", "", e.What)
			continue
		}
		fmt.Fprintf(
			&b, "  %12s %+9.3fs  %s\n",
			e.At.UTC().Format("15:04:05.000"), e.At.Sub(due).Seconds(), e.What,
		)
	}
	return b.String()
}
