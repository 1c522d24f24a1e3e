// Package memstate is the shared limit state in memory, for one process that runs every service.
package memstate

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/limit"
)

// SharedState is a shared limit state in memory. It is safe for concurrent use.
type SharedState struct {
	now func() time.Time

	mu   sync.Mutex
	apps map[string]*entry
}

var _ limit.SharedState = (*SharedState)(nil)

// entry is the state of one app.
type entry struct {
	// used is the time up to which all tokens are spent, at the rate. It is never in the future.
	used      time.Time
	picker    limit.Picker
	executors map[string]*share
}

// share is the part of one executor.
type share struct {
	slots, want int
	until       time.Time
	waiting     [limit.Priorities]bool
	waitsUntil  time.Time
}

// New returns an empty state that reads the time from now; nil means time.Now.
func New(now func() time.Time) *SharedState {
	if now == nil {
		now = time.Now
	}
	return &SharedState{now: now, apps: map[string]*entry{}}
}

// Sync implements limit.SharedState.
func (l *SharedState) Sync(
	ctx context.Context,
	executor string,
	demands []limit.Demand,
) ([]limit.Grant, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	grants := make([]limit.Grant, len(demands))
	for i := range demands {
		grants[i] = l.grant(now, executor, &demands[i])
	}
	return grants, nil
}

func (l *SharedState) grant(now time.Time, executor string, w *limit.Demand) limit.Grant {
	e := l.apps[w.App]
	if e == nil {
		e = &entry{executors: map[string]*share{}}
		l.apps[w.App] = e
	}
	var g limit.Grant
	left := w.Waiting
	if w.Settings.Rate > 0 {
		e.take(now, executor, w, &left, &g)
	}
	g.Slots, g.Executors = e.slots(now, executor, w)
	if s := e.executors[executor]; s != nil {
		s.waiting, s.waitsUntil = some(left), now.Add(limit.WaitTTL)
	}
	if len(e.executors) == 0 && now.Sub(e.used) > time.Duration(float64(w.Settings.Burst)*step(w)) {
		delete(l.apps, w.App) // a new entry has a full bucket, too
	}
	return g
}

// step is the time from one token to the next, in nanoseconds.
func step(w *limit.Demand) float64 { return float64(time.Second) / w.Settings.Rate }

// take grants tokens from a bucket that is full after a pause of burst / rate. It counts down left,
// the fires that still wait.
func (e *entry) take(
	now time.Time,
	executor string,
	w *limit.Demand,
	left *[limit.Priorities]int,
	g *limit.Grant,
) {
	step := step(w)
	full := now.Add(-time.Duration(float64(w.Settings.Burst) * step))
	if e.used.Before(full) {
		e.used = full
	}
	if e.used.After(now) {
		e.used = now // the clock was set back
	}
	const rounding = 1e-6
	tokens := max(int(math.Floor(float64(now.Sub(e.used))/step+rounding)), 0)
	others := e.waitElsewhere(now, executor)
	for len(g.Order) < min(tokens, w.Starts) {
		waiting := some(*left)
		for i := range others {
			waiting[i] = waiting[i] || others[i]
		}
		next := e.picker
		turn, ok := next.Next(waiting)
		if !ok || left[turn] == 0 {
			// It belongs to another executor, which asks within WaitTTL or waits no longer.
			break
		}
		e.picker = next
		left[turn]--
		g.Order = append(g.Order, turn)
	}
	used := len(g.Order)
	if *left == [limit.Priorities]int{} && others == [limit.Priorities]bool{} {
		g.Tokens = min(w.Tokens, tokens-used)
		used += g.Tokens
	}
	e.used = e.used.Add(time.Duration(float64(used) * step))
	if g.Tokens < w.Tokens || len(g.Order) < w.Starts && *left != [limit.Priorities]int{} {
		g.NextToken = max(e.used.Add(time.Duration(step)).Sub(now), 0)
	}
}

// waitElsewhere returns the priorities with waiting fires at other executors.
func (e *entry) waitElsewhere(now time.Time, executor string) (waiting [limit.Priorities]bool) {
	for name, s := range e.executors {
		if name == executor || now.After(s.waitsUntil) {
			continue
		}
		for i := range waiting {
			waiting[i] = waiting[i] || s.waiting[i]
		}
	}
	return waiting
}

func some(waiting [limit.Priorities]int) (set [limit.Priorities]bool) {
	for i, n := range waiting {
		set[i] = n > 0
	}
	return set
}

// slots grants an executor its part of the slots.
func (e *entry) slots(now time.Time, executor string, w *limit.Demand) (slots, executors int) {
	taken := 0
	var others []limit.Claim
	for name, s := range e.executors {
		switch {
		case name == executor:
		case now.After(s.until):
			delete(e.executors, name)
		default:
			taken += s.slots
			others = append(others, limit.Claim{Executor: name, Want: s.want})
		}
	}
	if w.IsEmpty() {
		delete(e.executors, executor)
		return 0, len(others)
	}
	if w.Settings.Concurrent > 0 {
		me := limit.Claim{Executor: executor, Want: w.Slots}
		slots = min(
			limit.Share(w.Settings.Concurrent, me, others, now),
			max(w.Settings.Concurrent-taken, 0),
		)
	}
	e.executors[executor] = &share{
		slots: max(slots, w.InUse),
		want:  max(w.Slots, w.InUse),
		until: now.Add(limit.SlotTTL),
	}
	return slots, len(others) + 1
}
