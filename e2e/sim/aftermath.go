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
	// leftBehind is how far past its run a fire may be open once all is calm, and how far behind
	// the cursor may stand.
	leftBehind = 15 * time.Second
	cursorLag  = 2 // minutes: the present one is not done, and the one before it perhaps not yet
)

// unfinished tells what the deployment still has to do, though nothing is in its way any more.
func (w *Environment) unfinished(t *testing.T) (what []string) {
	t.Helper()
	now := time.Now()
	oldest, err := w.store.OldestOpen(t.Context())
	require.NoError(t, err)
	if late := now.Sub(time.UnixMilli(oldest)); oldest > 0 && late > leftBehind {
		what = append(what, fmt.Sprintf("a fire is open %s past its run", late))
	}
	present := timer.MinuteOf(now.UnixMilli())
	cursor, err := w.store.Cursor(t.Context(), present)
	require.NoError(t, err)
	if present-cursor > cursorLag {
		what = append(what, fmt.Sprintf("the cursor is %d minutes behind", present-cursor))
	}
	live, err := w.store.LiveSessions(t.Context())
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

// counted looks whether outcomes came after as many attempts as their endpoint asks for.
func (w *Environment) counted(o *order, recorded map[int64]timer.Outcome) {
	for _, out := range recorded {
		want := int32(o.endpoint.fails + 1) //nolint:gosec // a handful
		if o.fails {
			want = int32(o.attempts) //nolint:gosec // a handful
		}
		if out.Kind != timer.Skipped && out.Attempts != want {
			w.failf(
				"%s is %s after %d attempts, and not %d",
				out.FireID,
				out.Kind,
				out.Attempts,
				want,
			)
		}
	}
}

// waited looks whether attempts came as long after the one before as their timer asks for.
func (w *Environment) waited(e ledger.Evidence) {
	orders := make(map[timer.ID]*order)
	for i := range w.plan.Orders {
		if h, ok := w.seen.of(w.plan.Orders[i].name); ok {
			orders[h.id] = &w.plan.Orders[i]
		}
	}
	// A wait that begins before a jump of the clock is measured is as much too short.
	off := skewed
	if slices.ContainsFunc(w.plan.Faults, func(f fault) bool { return f.kind == skewClock }) {
		off += farthest
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
		wait := orders[a.Fire.Timer].wait << (a.Attempt - 2)
		if !ok || a.Arrived().Sub(earlier) < wait-off {
			w.failf(
				"%s attempt %d comes %s after the one before, and not %s",
				a.Fire,
				a.Attempt,
				a.Arrived().Sub(earlier),
				wait,
			)
		}
	}
}

// letters collects dead letters.
type letters struct {
	mu   sync.Mutex
	seen map[timer.FireID]bool
}

func (l *letters) collect(ctx context.Context, b bus.Bus) (bus.Consumer, error) {
	l.seen = make(map[timer.FireID]bool)
	return b.Subscribe(ctx, bus.Subscription{ //nolint:wrapcheck // for a test
		Topic: bus.TasksDead, Name: bus.SubOperators, Concurrency: 1, MaxBatch: 100, Prefetch: 1,
	}, func(_ context.Context, batch []bus.Message) []error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, m := range batch {
			var d carillonv1.DeadTask
			if err := proto.Unmarshal(m.Payload, &d); err == nil && d.GetTask() != nil {
				l.seen[timer.FireID{Timer: timer.ID(d.GetTask().GetTimerId()), DueMS: d.GetTask().GetDueMs()}] = true
			}
		}
		return nil
	})
}

// buried looks whether each failed fire has its dead letter, where the bus lost no message.
func (w *Environment) buried(e ledger.Evidence) {
	for _, f := range w.plan.Faults {
		if f.kind == busBad || f.kind == busLost {
			return
		}
	}
	for _, o := range e.Outcomes {
		if o.Kind == timer.Failed && !w.letters.seen[o.Fire] {
			w.failf("%s failed, and there is no dead letter of it", o.Fire)
		}
	}
}
