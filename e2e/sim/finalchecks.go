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
	// maxOverdue is how far past its run a fire may be open once all is calm, and how far behind
	// the cursor may stand.
	maxOverdue = 15 * time.Second
	cursorLag  = 2 // minutes: the present one is not done, and the one before it perhaps not yet
)

// unfinished tells what the deployment still has to do, though nothing is in its way any more.
func (env *Environment) unfinished(t *testing.T) (what []string) {
	t.Helper()
	now := time.Now()
	oldest, err := env.store.OldestOpen(t.Context())
	require.NoError(t, err)
	if late := now.Sub(time.UnixMilli(oldest)); oldest > 0 && late > maxOverdue {
		what = append(what, fmt.Sprintf("a fire is open %s past its run", late))
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
		what = append(what, fmt.Sprintf("sessions that live: %v", kinds))
	}
	return what
}

// checkAttempts looks whether outcomes came after as many attempts as their endpoint asks for.
func (env *Environment) checkAttempts(o *timerPlan, recorded map[int64]timer.Outcome) {
	for _, out := range recorded {
		want := int32(o.endpoint.fails + 1) //nolint:gosec // a handful
		if o.fails {
			want = int32(o.attempts) //nolint:gosec // a handful
		}
		if out.Kind != timer.Skipped && out.Attempts != want {
			env.failf(
				"%s is %s after %d attempts, and not %d",
				out.FireID,
				out.Kind,
				out.Attempts,
				want,
			)
		}
	}
}

// checkRetryWaits looks whether attempts came as long after the one before as their timer asks for.
func (env *Environment) checkRetryWaits(e ledger.Evidence) {
	timerPlans := make(map[timer.ID]*timerPlan)
	for i := range env.plan.Timers {
		if h, ok := env.observer.historyOf(env.plan.Timers[i].name); ok {
			timerPlans[h.id] = &env.plan.Timers[i]
		}
	}
	// A wait that begins before a jump of the clock is measured is as much too short.
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
				"%s attempt %d comes %s after the one before, and not %s",
				a.Fire,
				a.Attempt,
				a.Arrived().Sub(earlier),
				wait,
			)
		}
	}
}

// deadLetters collects dead letters.
type deadLetters struct {
	mu       sync.Mutex
	received map[timer.FireID]bool
}

func (l *deadLetters) collect(ctx context.Context, b bus.Bus) (bus.Consumer, error) {
	l.received = make(map[timer.FireID]bool)
	return b.Subscribe(ctx, bus.Subscription{ //nolint:wrapcheck // for a test
		Topic: bus.TasksDead, Name: bus.SubOperators, Concurrency: 1, MaxBatch: 100, Prefetch: 1,
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

// checkDeadLetters looks whether each failed fire has its dead letter, where the bus lost no message.
func (env *Environment) checkDeadLetters(e ledger.Evidence) {
	for _, f := range env.plan.Faults {
		if f.kind == busBad || f.kind == busLost {
			return
		}
	}
	for _, o := range e.Outcomes {
		if o.Kind == timer.Failed && !env.deadLetters.received[o.Fire] {
			env.failf("%s failed, and there is no dead letter of it", o.Fire)
		}
	}
}
