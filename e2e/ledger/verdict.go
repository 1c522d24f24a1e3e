package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxHandoff is how long a call may be under way from its claim to the endpoint while the fire's end
// is recorded by another way: an endpoint that completes it by itself. The least silence after
// which an executor's calls are made again is longer.
const maxHandoff = 2 * time.Second

// Interruption is an instant at which an executor died, was frozen or was cut off: a call in flight then may
// be made again.
type Interruption struct {
	At time.Time
	// Until is when it was over at the latest, for one that took a while; zero: At.
	Until time.Time
	// Recording is how long before it an answer may have been given without having been recorded.
	// Where the outcome says when it finished, one that was recorded before the repetition came
	// excuses nothing.
	Recording time.Duration
	// Ports are those that its unanswered calls came from; nil: not known, any.
	Ports map[uint16]bool
}

// excuses tells whether a repetition is one that the cut explains: the earlier call was in flight,
// and of this executor. An answered call's connection may be closed by then, so that its port says
// nothing.
func (c *Interruption) excuses(earlier, again *receiver.Arrival) bool {
	return earlier.ArrivedNS < again.ArrivedNS && again.ArrivedNS >= c.At.UnixNano() &&
		c.covers(earlier)
}

// covers tells whether a call was in flight at the cut, and of this executor.
func (c *Interruption) covers(a *receiver.Arrival) bool {
	until := c.Until
	if until.IsZero() {
		until = c.At
	}
	if !a.InFlightAt(until, until.Sub(c.At)+c.Recording) {
		return false
	}
	answered := a.DoneNS != 0 && a.DoneNS <= until.UnixNano()
	return answered || c.Ports == nil || c.Ports[a.Port]
}

// Outcome is a recorded outcome, as the history tells it. One record may stand for a stretch of
// skipped fires.
type Outcome struct {
	Fire     timer.FireID
	UntilMS  int64 // the last due instant that it covers; 0 is Fire's own
	Kind     timer.OutcomeKind
	Reason   timer.Reason
	Attempts int32
	Finished time.Time // when the call ended that it tells of; zero: not known
}

// Evidence is what happened.
type Evidence struct {
	Arrivals      receiver.Arrivals // sorted
	Outcomes      []Outcome         // nil: not looked at
	Interruptions []Interruption
	// Begun tells when executors set out to call fires first; of others it is their first arrival.
	Begun  map[timer.FireID]time.Time
	Clocks time.Duration // how far the executors' and the receiver's clocks may be apart
}

// Verdict is the comparison.
type Verdict struct {
	Due       int // fires that must be called
	Called    int // of them, those that were
	Delivered int // outcomes
	Failed    int
	Skipped   map[timer.Reason]int

	Missing    []timer.FireID    // must be called, and were not
	Early      receiver.Arrivals // called before they were due
	Duplicates receiver.Arrivals // repeated without excuse
	Excused    int               // repeated, the first call being in flight at a cut
	// called though the ledger says that they are not, or does not know them in its span.
	Unexpected  []timer.FireID
	Disordered  []string       // late fires that began before one that is due earlier
	NoOutcome   []timer.FireID // called or must be, without a record
	TwoOutcomes []timer.FireID // with more than one record
	Wrong       []string       // outcomes that are not what the fire owed
	Unrecorded  int            // fires of the ledger without a record, also those that need none

	Lateness receiver.Quantiles
}

// Check compares. Fires of timers that the ledger does not know are not looked at.
func (l *Ledger) Check(e Evidence) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := Verdict{Skipped: make(map[timer.Reason]int)}
	var mine receiver.Arrivals
	for _, a := range e.Arrivals {
		if s, ok := l.spans[a.Fire.Timer]; ok && a.Fire.DueMS >= s.from && a.Fire.DueMS <= s.to {
			mine = append(mine, a)
		}
	}
	byFire := mine.ByFire()
	v.Early = mine.Early(e.Clocks)
	v.Lateness = mine.Lateness()
	v.classifyDuplicates(mine, byFire, e)
	l.calls(&v, byFire)
	l.order(&v, byFire, e)
	if e.Outcomes != nil {
		l.outcomes(&v, byFire, e)
	}
	slices.SortFunc(v.Missing, timer.CompareFireIDs)
	slices.SortFunc(v.NoOutcome, timer.CompareFireIDs)
	slices.SortFunc(v.Unexpected, timer.CompareFireIDs)
	return v
}

func (l *Ledger) calls(v *Verdict, byFire map[timer.FireID]receiver.Arrivals) {
	for f, d := range l.fires {
		if d != Must && d != Fail {
			continue
		}
		v.Due++
		if len(byFire[f]) > 0 {
			v.Called++
		} else {
			v.Missing = append(v.Missing, f)
		}
	}
	for f := range byFire {
		if d, ok := l.fires[f]; !ok || d == Not {
			v.Unexpected = append(v.Unexpected, f)
		}
	}
}

// order looks whether late fires began in order of due, where they are to.
func (l *Ledger) order(v *Verdict, byFire map[timer.FireID]receiver.Arrivals, e Evidence) {
	type beginning struct {
		fire timer.FireID
		at   time.Time
	}
	byTimer := make(map[timer.ID][]beginning)
	for f, as := range byFire {
		late, ordered := l.inOrder[f.Timer]
		if !ordered {
			continue
		}
		b := beginning{f, as[0].Arrived()}
		if at, ok := e.Begun[f]; ok {
			b.at = at
		}
		if b.at.Sub(time.UnixMilli(f.DueMS)) > late {
			byTimer[f.Timer] = append(byTimer[f.Timer], b)
		}
	}
	for _, all := range byTimer {
		slices.SortFunc(
			all,
			func(a, b beginning) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.fire.DueMS, b.fire.DueMS)) },
		)
		for i := 1; i < len(all); i++ {
			if a, b := all[i-1], all[i]; a.fire.DueMS > b.fire.DueMS {
				v.Disordered = append(
					v.Disordered,
					fmt.Sprintf(
						"%s at %s, %s at %s",
						a.fire,
						a.at.UTC().Format(time.StampMilli),
						b.fire,
						b.at.UTC().Format(time.StampMilli),
					),
				)
			}
		}
	}
	slices.Sort(v.Disordered)
}

// classifyDuplicates sorts duplicates into those with an excuse (any earlier call of the fire was in flight
// at a cut, and its answer is not what was recorded) and those without.
func (v *Verdict) classifyDuplicates(
	mine receiver.Arrivals,
	byFire map[timer.FireID]receiver.Arrivals,
	e Evidence,
) {
	finished := make(map[timer.FireID]time.Time, len(e.Outcomes))
	for _, o := range e.Outcomes {
		finished[o.Fire] = o.Finished
	}
	for _, d := range mine.Duplicates() {
		at := finished[d.Fire]
		recorded := !at.IsZero() && at.Add(maxHandoff).Before(d.Arrived())
		excused := !recorded && slices.ContainsFunc(e.Interruptions, func(c Interruption) bool {
			return slices.ContainsFunc(byFire[d.Fire], func(a receiver.Arrival) bool {
				return c.excuses(&a, &d)
			})
		})
		if excused {
			v.Excused++
		} else {
			v.Duplicates = append(v.Duplicates, d)
		}
	}
}

func (l *Ledger) outcomes(v *Verdict, byFire map[timer.FireID]receiver.Arrivals, e Evidence) {
	seen := make(map[timer.FireID]int, len(e.Outcomes))
	for _, o := range e.Outcomes {
		for _, f := range l.coveredFires(o) {
			seen[f]++
			if seen[f] > 1 {
				v.TwoOutcomes = append(v.TwoOutcomes, f)
				continue
			}
			v.count(o)
			if want := l.expectedOutcome(f); want != "" && o.Kind != want {
				v.Wrong = append(
					v.Wrong,
					fmt.Sprintf("%s: %s(%s), owed %s", f, o.Kind, o.Reason, want),
				)
			} else if o.Kind == timer.Skipped && delivered(byFire[f], e.Interruptions) {
				v.Wrong = append(v.Wrong, fmt.Sprintf("%s: skipped(%s), and called", f, o.Reason))
			}
		}
	}
	for f, d := range l.fires {
		if seen[f] == 0 {
			v.Unrecorded++
		}
		if seen[f] == 0 && (d == Must || d == Fail || len(byFire[f]) > 0) {
			v.NoOutcome = append(v.NoOutcome, f)
		}
	}
}

// delivered tells whether a call succeeded whose answer no cut explains away. Attempts that failed
// before a fire was skipped are no fault: its timer was switched off between two of them.
func delivered(calls receiver.Arrivals, interruptions []Interruption) bool {
	return slices.ContainsFunc(calls, func(a receiver.Arrival) bool {
		return a.Succeeded() &&
			!slices.ContainsFunc(interruptions, func(c Interruption) bool { return c.covers(&a) })
	})
}

// coveredFires returns the ledger's fires that an outcome stands for, and its own fire within a known
// span.
func (l *Ledger) coveredFires(o Outcome) []timer.FireID {
	s, ok := l.spans[o.Fire.Timer]
	if !ok {
		return nil
	}
	if o.UntilMS <= o.Fire.DueMS {
		if o.Fire.DueMS < s.from || o.Fire.DueMS > s.to {
			return nil
		}
		return []timer.FireID{o.Fire}
	}
	var fs []timer.FireID
	for f := range l.fires {
		if f.Timer == o.Fire.Timer && f.DueMS >= o.Fire.DueMS && f.DueMS <= o.UntilMS {
			fs = append(fs, f)
		}
	}
	return fs
}

func (l *Ledger) expectedOutcome(f timer.FireID) timer.OutcomeKind {
	switch d, ok := l.fires[f]; {
	case !ok || d == May:
		return ""
	case d == Must:
		return timer.Delivered
	case d == Fail:
		return timer.Failed
	default:
		return timer.Skipped
	}
}

func (v *Verdict) count(o Outcome) {
	switch o.Kind {
	case timer.Delivered:
		v.Delivered++
	case timer.Failed:
		v.Failed++
	case timer.Skipped:
		v.Skipped[o.Reason]++
	}
}

// OK tells whether every promise held.
func (v *Verdict) OK() bool { return len(v.Faults()) == 0 }

// Faults lists what did not hold, a line each with a few examples.
func (v *Verdict) Faults() []string {
	var out []string
	add := func(what string, n int, example func(int) string) {
		if n == 0 {
			return
		}
		var ex []string
		for i := range min(n, 5) { //nolint:mnd // enough to begin a search with
			ex = append(ex, example(i))
		}
		out = append(out, fmt.Sprintf("%d %s: %s", n, what, strings.Join(ex, ", ")))
	}
	ids := func(f []timer.FireID) func(int) string { return func(i int) string { return f[i].String() } }
	add("missing", len(v.Missing), ids(v.Missing))
	add("early", len(v.Early), func(i int) string {
		a := v.Early[i]
		return fmt.Sprintf("%s by %s", a.Fire, -a.Lateness())
	})
	add("repeated without excuse", len(v.Duplicates), func(i int) string {
		a := v.Duplicates[i]
		return fmt.Sprintf(
			"%s attempt %d at %s",
			a.Fire,
			a.Attempt,
			a.Arrived().UTC().Format(time.StampMilli),
		)
	})
	add("called though not ordered", len(v.Unexpected), ids(v.Unexpected))
	add("begun out of order", len(v.Disordered), func(i int) string { return v.Disordered[i] })
	add("without outcome", len(v.NoOutcome), ids(v.NoOutcome))
	add("with two outcomes", len(v.TwoOutcomes), ids(v.TwoOutcomes))
	add("with a wrong outcome", len(v.Wrong), func(i int) string { return v.Wrong[i] })
	return out
}

// Heading is the Markdown table's head for Row.
const Heading = `| | due | called | delivered | failed | skipped | missing | early | duplicates (excused) | p50 | p99 | p99.9 | max |
|---|---|---|---|---|---|---|---|---|---|---|---|---|`

// Row returns the verdict as a line of a Markdown table.
func (v *Verdict) Row(name string) string {
	skipped := 0
	for _, n := range v.Skipped {
		skipped += n
	}
	q := v.Lateness
	return fmt.Sprintf(
		"| %s | %d | %d | %d | %d | %d | %d | %d | %d (%d) | %s | %s | %s | %s |",
		name,
		v.Due,
		v.Called,
		v.Delivered,
		v.Failed,
		skipped,
		len(v.Missing),
		len(v.Early),
		len(v.Duplicates),
		v.Excused,
		short(q.P50),
		short(q.P99),
		short(q.P999),
		short(q.Max),
	)
}

func short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
