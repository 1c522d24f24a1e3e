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

// maxHandoff bounds the time of a call from its claim to the endpoint, while the endpoint itself
// completes the fire. It is shorter than the session timeout, after which calls repeat.
const maxHandoff = 2 * time.Second

// Interruption is an instant at which an executor died, was frozen, or lost its connections. Calls
// in flight at that instant may be repeated.
type Interruption struct {
	At time.Time
	// Until is the latest end of an interruption that took some time. Zero is At.
	Until time.Time
	// Recording is how long before the interruption an answer may have come without being recorded.
	// If the outcome's finish time is before the repetition, nothing excuses that.
	Recording time.Duration
	// Ports are the source ports of the executor's unanswered calls that go through no proxy; nil
	// is any.
	Ports map[uint16]bool
}

// excuses reports whether the interruption explains a repetition: the earlier call was in flight,
// and this executor made it. Clocks is the greatest difference of the executors' and the receiver's
// clocks.
func (c *Interruption) excuses(earlier, again *receiver.Arrival, clocks time.Duration) bool {
	return earlier.ArrivedNS < again.ArrivedNS && again.ArrivedNS >= c.At.UnixNano() &&
		c.covers(earlier, clocks)
}

// covers reports whether this executor's call was in flight at the interruption. The port says
// nothing of an answered call, whose connection may be closed by then, nor of a call through a
// proxy, which has connections of its own.
func (c *Interruption) covers(a *receiver.Arrival, clocks time.Duration) bool {
	until := c.Until
	if until.IsZero() {
		until = c.At
	}
	if !a.InFlightAt(until, until.Sub(c.At)+c.Recording, clocks) {
		return false
	}
	answered := a.DoneNS != 0 && a.DoneNS <= until.UnixNano()
	return answered || a.Proxied || c.Ports == nil || c.Ports[a.Port]
}

// Outcome is a recorded outcome from a timer's history. One record may cover a range of skipped
// fires.
type Outcome struct {
	Fire     timer.FireID
	UntilMS  int64 // the last due instant that the record covers; 0 is Fire's own
	Kind     timer.OutcomeKind
	Reason   timer.Reason
	Attempts int32
	Finished time.Time // end of the recorded call; zero if not known
}

// Evidence is what the receiver and the store saw.
type Evidence struct {
	Arrivals      receiver.Arrivals // sorted
	Outcomes      []Outcome         // nil: outcomes are not checked
	Interruptions []Interruption
	// Begun has the instants at which executors started the first calls of fires. For other fires
	// the first arrival counts.
	Begun map[timer.FireID]time.Time
	// Deferred has the fires that a limit or a breaker deferred before their first call. They lost
	// their place in the order of late fires.
	Deferred map[timer.FireID]bool
	Clocks   time.Duration // greatest difference of the executors' and the receiver's clocks
}

// Verdict is the result of Check.
type Verdict struct {
	Due       int // fires that must be called
	Called    int // fires that must be called and were
	Delivered int // outcomes by kind
	Failed    int
	Skipped   map[timer.Reason]int

	Missing    []timer.FireID    // not called although they must be
	Early      receiver.Arrivals // called before they were due
	Duplicates receiver.Arrivals // repeated calls that no interruption explains
	Excused    int               // repeated calls whose first call was in flight at an interruption
	// Called although the ledger forbids it, or does not know the fire in the timer's span.
	Unexpected  []timer.FireID
	Disordered  []string       // late fires that started before a fire with an earlier due instant
	NoOutcome   []timer.FireID // without a record although they were called, or must be
	TwoOutcomes []timer.FireID // with more than one record
	Wrong       []string       // outcomes that differ from the duty
	Unrecorded  int            // fires of the ledger without a record, also those that need none

	Lateness receiver.Quantiles

	wrongFires []timer.FireID // of Disordered and Wrong
}

// Check compares the ledger with the evidence. It ignores timers that the ledger does not know.
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

// order checks that late fires of timers with an order started in the order of their due instants.
func (l *Ledger) order(v *Verdict, byFire map[timer.FireID]receiver.Arrivals, e Evidence) {
	type beginning struct {
		fire timer.FireID
		at   time.Time
	}
	byTimer := make(map[timer.ID][]beginning)
	for f, as := range byFire {
		late, ordered := l.inOrder[f.Timer]
		if !ordered || e.Deferred[f] {
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
				v.wrongFires = append(v.wrongFires, b.fire)
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

// classifyDuplicates counts a repeated call as excused if any earlier call of the fire was in
// flight at an interruption and its answer was not recorded. The others are duplicates.
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
				return c.excuses(&a, &d, e.Clocks)
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
				v.wrongFires = append(v.wrongFires, f)
				v.Wrong = append(
					v.Wrong,
					fmt.Sprintf("%s: %s(%s), owed %s", f, o.Kind, o.Reason, want),
				)
			} else if o.Kind == timer.Skipped && delivered(byFire[f], e) {
				v.wrongFires = append(v.wrongFires, f)
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

// delivered reports whether a call succeeded that was not in flight at an interruption. Failed
// attempts before a skip are no fault: the timer became inactive between two attempts.
func delivered(calls receiver.Arrivals, e Evidence) bool {
	return slices.ContainsFunc(calls, func(a receiver.Arrival) bool {
		return a.Succeeded() &&
			!slices.ContainsFunc(
				e.Interruptions,
				func(c Interruption) bool { return c.covers(&a, e.Clocks) },
			)
	})
}

// coveredFires returns the fires of the ledger that an outcome covers. It includes the outcome's
// own fire if that lies within the timer's span.
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

// OK reports whether every promise held.
func (v *Verdict) OK() bool { return len(v.Faults()) == 0 }

// Faults returns a line for each kind of fault, with up to five examples.
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
	add("started out of order", len(v.Disordered), func(i int) string { return v.Disordered[i] })
	add("without outcome", len(v.NoOutcome), ids(v.NoOutcome))
	add("with two outcomes", len(v.TwoOutcomes), ids(v.TwoOutcomes))
	add("with a wrong outcome", len(v.Wrong), func(i int) string { return v.Wrong[i] })
	return out
}

// Heading is the head of the Markdown table that Row fills.
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
