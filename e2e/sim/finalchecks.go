package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	// maxOverdue is how far past its run a fire may be open after the faults have ended.
	maxOverdue = 15 * time.Second
	// deadLetterPage is small, so that most runs read several pages.
	deadLetterPage = 3
	cursorLag      = 2 // minutes: the current one is not done, and the previous one perhaps not yet
)

// unfinished returns the work that is left, although no fault is active.
func (env *Environment) unfinished(t *testing.T) (what []string) {
	t.Helper()
	now := time.Now()
	oldest, err := env.store.OldestOpen(t.Context())
	require.NoError(t, err)
	if late := now.Sub(time.UnixMilli(oldest)); oldest > 0 && late > maxOverdue {
		what = append(what, fmt.Sprintf("a fire is open %s past its run time", late))
	}
	currentMinute := timer.MinuteOf(now.UnixMilli())
	cursor, err := env.store.Cursor(t.Context(), currentMinute)
	require.NoError(t, err)
	if currentMinute-cursor > cursorLag {
		what = append(what, fmt.Sprintf("the cursor is %d minutes behind", currentMinute-cursor))
	}
	live, err := env.store.LiveSessions(t.Context())
	require.NoError(t, err)
	kinds := make(map[store.SessionKind]int)
	for _, l := range live {
		kinds[l.Kind]++
	}
	if kinds[store.ExecutorSession] != replicas || kinds[store.SchedulerSession] != replicas {
		what = append(what, fmt.Sprintf("live sessions: %v", kinds))
	}
	return what
}

// checkAttempts checks that outcomes have the number of attempts that their endpoint requires.
func (env *Environment) checkAttempts(o *timerPlan, recorded map[int64]timer.Outcome) {
	for _, out := range recorded {
		want := int32(o.endpoint.fails + 1) //nolint:gosec // a handful
		if o.fails {
			want = int32(o.attempts) //nolint:gosec // a handful
		}
		if out.Kind != timer.Skipped && out.Attempts != want {
			env.failf(
				"%s is %s after %d attempts, expected %d",
				out.FireID,
				out.Kind,
				out.Attempts,
				want,
			)
		}
	}
}

// checkRetryWaits checks that attempts came no sooner after the previous one than their timer
// allows.
func (env *Environment) checkRetryWaits(e ledger.Evidence) {
	timerPlans := make(map[timer.ID]*timerPlan)
	for i := range env.plan.Timers {
		if h, ok := env.observer.historyOf(env.plan.Timers[i].name); ok {
			timerPlans[h.id] = &env.plan.Timers[i]
		}
	}
	// If a wait begins before a clock jump is measured, it may be shorter by the jump.
	off := clockTolerance
	if slices.ContainsFunc(env.plan.Faults, func(f fault) bool { return f.kind == skewClock }) {
		off += maxClockJump
	}
	type attempt struct {
		fire timer.FireID
		n    int32
	}
	firsts := make(map[attempt]time.Time)
	for _, a := range e.Arrivals {
		at := attempt{a.Fire, a.Attempt}
		if _, ok := firsts[at]; !ok {
			firsts[at] = a.Arrived()
		}
		if a.Attempt == 1 {
			continue
		}
		earlier, ok := firsts[attempt{a.Fire, a.Attempt - 1}]
		//nolint:mnd // the second waits once, and each further twice as long
		wait := timerPlans[a.Fire.Timer].wait << (a.Attempt - 2)
		if !ok || a.Arrived().Sub(earlier) < wait-off {
			env.failf(
				"%s attempt %d comes %s after the previous one, expected %s",
				a.Fire,
				a.Attempt,
				a.Arrived().Sub(earlier),
				wait,
			)
		}
	}
}

// deadLetters collects the notifications of dead letters.
type deadLetters struct {
	mu       sync.Mutex
	received map[timer.FireID]bool
}

func (l *deadLetters) collect(ctx context.Context, b bus.Bus) (bus.Consumer, error) {
	l.received = make(map[timer.FireID]bool)
	return b.Subscribe(ctx, bus.Subscription{ //nolint:wrapcheck // for a test
		Topic: bus.TasksDead, Name: "listeners", Concurrency: 1, MaxBatch: 100, Prefetch: 1,
	}, func(_ context.Context, batch []bus.Message) []error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, m := range batch {
			var d carillonv1.DeadTask
			if err := proto.Unmarshal(m.Payload, &d); err == nil && d.GetTask() != nil {
				l.received[timer.FireID{Timer: timer.ID(d.GetTask().GetTimerId()), DueMS: d.GetTask().GetDueMs()}] = true
			}
		}
		return nil
	})
}

// checkDeadLetters checks that the store lists each failed fire as a dead letter, and that each was
// published, unless the bus lost messages.
func (env *Environment) checkDeadLetters(t *testing.T, e ledger.Evidence) {
	t.Helper()
	listed := env.listDeadLetters(t)
	for _, o := range e.Outcomes {
		if o.Kind == timer.Failed && !listed[o.Fire] && !env.isDeleted(t, o.Fire.Timer) {
			env.failf("%s failed, but the store does not list it as a dead letter", o.Fire)
		}
	}
	for _, fire := range env.unpublished(e) {
		env.failf("%s failed, and no dead letter was published", fire)
	}
}

// unpublished returns the failed fires whose dead letters were not received. They follow the outcome:
// at once, or from a scheduler after the death of an executor. A bus that loses messages may have
// lost them.
func (env *Environment) unpublished(e ledger.Evidence) (fires []timer.FireID) {
	for _, f := range env.plan.Faults {
		if f.kind == busBad || f.kind == busLost {
			return nil
		}
	}
	env.deadLetters.mu.Lock()
	defer env.deadLetters.mu.Unlock()
	for _, o := range e.Outcomes {
		if o.Kind == timer.Failed && !env.deadLetters.received[o.Fire] {
			fires = append(fires, o.Fire)
		}
	}
	return fires
}

// listDeadLetters reads the store's dead letters page by page.
func (env *Environment) listDeadLetters(t *testing.T) map[timer.FireID]bool {
	t.Helper()
	listed := make(map[timer.FireID]bool)
	q := store.DeadLetterQuery{App: app, IncludeRedriven: true, Limit: deadLetterPage}
	for more := true; more; {
		page, err := env.store.DeadLetters(t.Context(), q)
		require.NoError(t, err)
		for i := range page.DeadLetters {
			l := &page.DeadLetters[i]
			if listed[l.FireID] {
				env.failf("%s is listed twice as a dead letter", l.FireID)
			}
			listed[l.FireID] = true
		}
		q.After, more = page.Next, page.Next != (store.OutcomePosition{})
	}
	return listed
}

func (env *Environment) isDeleted(t *testing.T, id timer.ID) bool {
	t.Helper()
	states, err := env.store.States(t.Context(), []timer.ID{id})
	require.NoError(t, err)
	return len(states) == 1 && states[0].Status == timer.StatusDeleted
}
