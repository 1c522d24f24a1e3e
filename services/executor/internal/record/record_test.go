package record

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/events"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight/inflighttest"
)

var errAway = errors.New("unavailable")

// fakes are what a recorder writes to. They list what reached them, in order.
type fakes struct {
	mu     sync.Mutex
	list   []string
	away   bool // the store is unavailable
	fenced []timer.FireID

	creates       []timer.Fire // by each record
	unconfirmed   []timer.Fire
	dispatchTakes time.Duration
}

func (f *fakes) add(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errAway
	}
	f.list = append(f.list, what)
	return nil
}

func (f *fakes) setAway(away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = away
}

func (f *fakes) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

func (f *fakes) Record(
	_ context.Context,
	_ timer.ID,
	outcomes []timer.Outcome,
	_ []timer.Attempt,
) ([]timer.FireID, []timer.Fire, error) {
	return f.fenced, f.creates, f.add("record " + string(outcomes[0].Kind))
}

func (f *fakes) RecordAttempts(
	context.Context, timer.ID, []timer.Fire, []timer.Attempt,
) ([]timer.FireID, error) {
	return f.fenced, f.add("attempts")
}

func (f *fakes) Release(
	_ context.Context, _ timer.ID, fires []timer.Fire, _ []timer.Attempt,
) ([]timer.Fire, error) {
	return fires, f.add("release")
}

func (f *fakes) Committed(_ context.Context, fires []timer.Fire) {
	time.Sleep(f.dispatchTakes)
	if len(fires) > 0 {
		_ = f.add("dispatch")
	}
}

// setup returns a running recorder with one fire in flight.
func setup(t *testing.T, f *fakes) (*Recorder, *inflight.Set, *inflight.Entry) {
	t.Helper()
	set, epoch := inflight.New(10, inflighttest.NeverSlow), new(session.Epoch)
	es, _, err := set.Reserve(
		t.Context(), epoch, []inflight.Arrival{
			{Fire: timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: 1}}},
		},
		inflight.FromTask, 0,
	)
	require.NoError(t, err)
	r := New(Options{
		Store: f, Dispatch: f, Inflight: set,
		Events: events.New(events.Options{Registerer: prometheus.NewRegistry()}),
		Ended:  func(*inflight.Entry) { _ = f.add("ended") },
		Held:   func(es ...*inflight.Entry) { _ = f.add("held"); require.NotEmpty(t, es) },
		Room:   func() {},
		Unconfirmed: func(x timer.Fire) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.unconfirmed = append(f.unconfirmed, x)
		},
		Logger:     zerolog.Nop(),
		Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return r, set, es[0]
}

func TestFireStaysInFlightUntilItsResultIsWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put  func(r *Recorder, e *inflight.Entry)
		want []string
		left int // in flight
	}{
		"a delivery": {
			func(r *Recorder, e *inflight.Entry) {
				r.End(timer.Outcome{Fire: e.Fire, Kind: timer.Delivered}, e)
			},
			[]string{"record delivered"},
			0,
		},
		"a failure": { // its dead letter follows, with its event
			func(r *Recorder, e *inflight.Entry) {
				r.End(timer.Outcome{Fire: e.Fire, Kind: timer.Failed}, e)
			},
			[]string{"record failed"},
			0,
		},
		"a retry in flight": {func(r *Recorder, e *inflight.Entry) { r.Hold(e) }, []string{"attempts", "held"}, 1},
		"a release":         {func(r *Recorder, e *inflight.Entry) { r.Release(e) }, []string{"release", "dispatch"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fakes{away: true}
				r, set, e := setup(t, f)
				c.put(r, e)
				time.Sleep(time.Minute)
				require.Empty(t, f.seen())
				require.Equal(t, 1, set.Len())
				require.Equal(t, 1, r.Waiting())
				f.setAway(false)
				time.Sleep(2 * maxRecordRetry)
				require.Equal(t, c.want, f.seen())
				require.Equal(t, c.left, set.Len())
				require.Zero(t, r.Waiting())
			})
		})
	}
}

// TestFencedRetryLeaves checks that a retry whose fire another session took over leaves the
// in-flight set, and waits for no further attempt.
func TestFencedRetryLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{fenced: []timer.FireID{{Timer: 1, DueMS: 1}}}
		r, set, e := setup(t, f)
		r.opts.Held = func(es ...*inflight.Entry) { require.Empty(t, es) }
		r.Hold(e)
		time.Sleep(time.Second)
		require.Equal(t, []string{"attempts"}, f.seen())
		require.Zero(t, set.Len())
	})
}

// TestARefusedFireIsClaimedAgain checks that a fire is claimed again that the session may still own:
// only an outcome that says "superseded" is refused of such a fire.
func TestARefusedFireIsClaimedAgain(t *testing.T) {
	t.Parallel()
	for reason, want := range map[timer.Reason]int{timer.ReasonSuperseded: 1, timer.ReasonPaused: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakes{fenced: []timer.FireID{{Timer: 1, DueMS: 1}}}
			r, set, e := setup(t, f)
			r.End(timer.Outcome{Fire: e.Fire, Kind: timer.Skipped, Reason: reason}, e)
			time.Sleep(time.Second)
			f.mu.Lock()
			defer f.mu.Unlock()
			require.Len(t, f.unconfirmed, want, reason)
			require.Zero(t, set.Len())
		})
	}
}

// TestDispatchHoldsUpNoRecord records outcomes that make fires, whose dispatch takes long, as while
// Pulsar is away. The next outcome is written at once, and the recorder waits for the dispatches when
// it ends.
func TestDispatchHoldsUpNoRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{creates: make([]timer.Fire, 1), dispatchTakes: 2 * time.Second}
		want := []string{"ended", "record delivered", "ended", "record delivered"}
		t.Cleanup(func() { // at the end
			require.Equal(t, append(want, "dispatch", "dispatch"), f.seen())
		})
		r, set, first := setup(t, f)
		es, _, err := set.Reserve(t.Context(), first.Epoch, []inflight.Arrival{
			{Fire: timer.Fire{FireID: timer.FireID{Timer: 2, DueMS: 1}}},
		}, inflight.FromTask, 0)
		require.NoError(t, err)
		for _, e := range []*inflight.Entry{first, es[0]} {
			r.End(timer.Outcome{Fire: e.Fire, Kind: timer.Delivered, Serial: true}, e)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, want, f.seen())
		require.Zero(t, set.Len())
	})
}

// TestSeriesOfCalledFiresBeginAtZero checks that the first failed fire is an increase for Prometheus.
func TestSeriesOfCalledFiresBeginAtZero(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	newMetrics(reg, func() int { return 0 })
	families, err := reg.Gather()
	require.NoError(t, err)
	var shown []string
	for _, f := range families {
		if f.GetName() != "carillon_fires_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			require.Zero(t, m.GetCounter().GetValue())
			shown = append(shown, m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue())
		}
	}
	require.ElementsMatch(t, []string{
		"delivered ", "failed exhausted", "failed not_retried", "failed gave_up", "failed gone",
		"failed rejected",
	}, shown)
}
