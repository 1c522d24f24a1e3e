package trigger

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/timer"
)

// publisher keeps how many fires came by each call.
type publisher struct {
	mu    sync.Mutex
	calls []int
	err   error
}

func (p *publisher) Publish(_ context.Context, fires []timer.Fire) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, len(fires))
	return p.err
}

func (p *publisher) PublishLow(ctx context.Context, fires []timer.Fire) error {
	return p.Publish(ctx, fires)
}

func TestSmallBatchesAreGathered(t *testing.T) {
	t.Parallel()
	ahead := func(n int, d time.Duration) []timer.Fire {
		fires := make([]timer.Fire, n)
		for i := range fires {
			fires[i].RunAtMS = time.Now().Add(d).UnixMilli()
		}
		return fires
	}
	run := func(t *testing.T, p *publisher, batches ...[]timer.Fire) (took time.Duration, errs []error) {
		t.Helper()
		g := newGatherer(p, time.Now, prometheus.NewHistogram(prometheus.HistogramOpts{}))
		defer g.close()
		began := time.Now()
		errs = make([]error, len(batches))
		var wg sync.WaitGroup
		for i, fires := range batches {
			wg.Go(func() { errs[i] = g.Publish(t.Context(), bus.TasksNormal, fires) })
		}
		wg.Wait()
		return time.Since(began), errs
	}

	synctest.Test(t, func(t *testing.T) {
		var p publisher
		few := ahead(10, 2*time.Second)
		took, errs := run(t, &p, few, few, few)
		require.Equal(t, []int{30}, p.calls, "one batch of three slices")
		require.Equal(t, gatherWait, took)
		require.Equal(t, make([]error, 3), errs)
	})
	synctest.Test(t, func(t *testing.T) {
		var p publisher
		took, _ := run(t, &p, append(ahead(10, 2*time.Second), ahead(1, gatherAhead-1)...))
		require.Equal(t, []int{11}, p.calls)
		require.Zero(t, took, "a fire that is due soon does not wait")
		took, _ = run(t, &p, ahead(gatherFires, 2*time.Second))
		require.Equal(t, []int{11, gatherFires}, p.calls)
		require.Zero(t, took, "a large batch does not wait")
	})
	synctest.Test(t, func(t *testing.T) {
		p := publisher{err: errors.New("no broker")}
		few := ahead(10, 2*time.Second)
		_, errs := run(t, &p, few, few)
		require.Equal(t, []error{p.err, p.err}, errs, "each slice publishes again")
	})
}

// slow is a publisher that takes 200 ms.
type slow struct{ publisher }

func (p *slow) Publish(ctx context.Context, fires []timer.Fire) error {
	time.Sleep(200 * time.Millisecond)
	return p.publisher.Publish(ctx, fires)
}

// TestGatheredBatchesDoNotWaitForEachOther publishes few fires of many slices by a bus that takes long
// to confirm.
func TestGatheredBatchesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, each = 64, 10
		var p slow
		g := newGatherer(&p, time.Now, prometheus.NewHistogram(prometheus.HistogramOpts{}))
		defer g.close()
		few := make([]timer.Fire, each)
		for i := range few {
			few[i].RunAtMS = time.Now().Add(2 * time.Second).UnixMilli()
		}
		began := time.Now()
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() { errs[i] = g.Publish(t.Context(), bus.TasksNormal, few) })
		}
		wg.Wait()
		require.Equal(t, make([]error, callers), errs)
		require.LessOrEqual(t, time.Since(began), 500*time.Millisecond)
		require.Len(t, p.calls, callers/gatherSlices)
	})
}

// hanging is a publisher that hangs with fires of high priority, and with everything that comes
// with them.
type hanging struct{ publisher }

func (p *hanging) Publish(ctx context.Context, fires []timer.Fire) error {
	for i := range fires {
		if fires[i].PriorityLevel == timer.LevelHigh {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	return p.publisher.Publish(ctx, fires)
}

// TestGatheredBatchesHaveOneTopic publishes few fires of several slices, while the topic of some of
// them takes nothing. The others are published at once.
func TestGatheredBatchesHaveOneTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p hanging
		g := newGatherer(&p, time.Now, prometheus.NewHistogram(prometheus.HistogramOpts{}))
		defer g.close()
		run := time.Now().Add(2 * time.Second).UnixMilli()
		high := []timer.Fire{{RunAtMS: run, PriorityLevel: timer.LevelHigh}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = g.Publish(ctx, bus.TasksHigh, high) })
		began := time.Now()
		for range 3 {
			require.NoError(t, g.Publish(ctx, bus.TasksNormal, []timer.Fire{{RunAtMS: run}}))
		}
		require.Equal(t, 3*gatherWait, time.Since(began))
		require.Equal(t, []int{1, 1, 1}, p.calls)
		cancel()
		wg.Wait()
	})
}
