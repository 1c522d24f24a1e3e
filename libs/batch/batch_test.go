package batch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/batch"
)

func double(_ context.Context, in []int) ([]int, error) {
	out := make([]int, len(in))
	for i, n := range in {
		out[i] = 2 * n
	}
	return out, nil
}

func TestConcurrentCallsShareABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		g := batch.New(
			batch.Options{Max: 100, Wait: 2 * time.Millisecond},
			func(ctx context.Context, in []int) ([]int, error) {
				mu.Lock()
				sizes = append(sizes, len(in))
				mu.Unlock()
				return double(ctx, in)
			},
		)
		defer g.Close()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				out, err := g.Do(t.Context(), i)
				if err != nil || out != 2*i {
					t.Errorf("item %d: got %d, %v", i, out, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, []int{10}, sizes)
	})
}

func TestBatchIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		largest := 0
		g := batch.New(
			batch.Options{Max: 4, Wait: time.Second},
			func(ctx context.Context, in []int) ([]int, error) {
				largest = max(largest, len(in))
				return double(ctx, in)
			},
		)
		defer g.Close()
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { _, _ = g.Do(t.Context(), i) })
		}
		wg.Wait()
		require.Equal(t, 4, largest)
	})
}

// TestConcurrentCallsDoNotSplitABatch: calls that could run do not take the items of a batch that
// waits for others.
func TestConcurrentCallsDoNotSplitABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		g := batch.New(
			batch.Options{Max: 4, Wait: 50 * time.Millisecond, Concurrency: 3},
			func(ctx context.Context, in []int) ([]int, error) {
				mu.Lock()
				sizes = append(sizes, len(in))
				mu.Unlock()
				time.Sleep(time.Second)
				return double(ctx, in)
			},
		)
		defer g.Close()
		call := func(n int) (took time.Duration) {
			sizes = nil
			began := time.Now()
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() { _, _ = g.Do(t.Context(), i) })
			}
			wg.Wait()
			return time.Since(began)
		}
		require.Equal(t, time.Second+50*time.Millisecond, call(3))
		require.Equal(t, []int{3}, sizes)
		require.Equal(t, time.Second, call(12))
		require.Equal(t, []int{4, 4, 4}, sizes)
	})
}

func TestErrorReachesEveryCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		g := batch.New(
			batch.Options{Max: 8, Wait: time.Millisecond},
			func(context.Context, []int) ([]int, error) { return nil, boom },
		)
		defer g.Close()
		for range 3 {
			_, err := g.Do(t.Context(), 1)
			require.ErrorIs(t, err, boom)
		}
	})
}

func TestTooFewResultsAreAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := batch.New(
			batch.Options{Max: 1},
			func(context.Context, []int) ([]int, error) { return nil, nil },
		)
		defer g.Close()
		_, err := g.Do(t.Context(), 1)
		require.ErrorContains(t, err, "0 results")
	})
}

// TestCallEndsWithItsLastCaller: one caller that waits is enough for all.
func TestCallEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done, cancelled int
		g := batch.New(batch.Options{Max: 2, Wait: time.Second, Timeout: time.Minute},
			func(ctx context.Context, in []int) ([]int, error) {
				select {
				case <-ctx.Done():
					cancelled++
					return nil, ctx.Err()
				case <-time.After(10 * time.Second):
					done++
					return double(ctx, in)
				}
			})
		call := func(wait time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			_, err := g.Do(ctx, 1)
			return err
		}
		var other sync.WaitGroup
		other.Go(func() {
			if err := call(20 * time.Second); err != nil {
				t.Error("another caller of the batch has left", err)
			}
		})
		require.ErrorIs(t, call(3*time.Second), context.DeadlineExceeded)
		other.Wait()
		require.Equal(t, 1, done)

		began := time.Now()
		other.Go(func() {
			if err := call(5 * time.Second); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		require.ErrorIs(t, call(3*time.Second), context.DeadlineExceeded)
		other.Wait()
		g.Close()
		require.Equal(t, 1, cancelled)
		require.Equal(t, 5*time.Second, time.Since(began))
		_, err := g.Do(t.Context(), 1)
		require.ErrorIs(t, err, batch.ErrClosed)
	})
}

// TestAbandonedItemsAreNotProcessed: an item whose caller has stopped waiting is not started,
// because the caller may have repeated it elsewhere.
func TestAbandonedItemsAreNotProcessed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []int
		g := batch.New(
			batch.Options{Max: 10, Wait: time.Second},
			func(ctx context.Context, in []int) ([]int, error) {
				got = append(got, in...)
				return double(ctx, in)
			},
		)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var other sync.WaitGroup
		var doubled int
		var failed error
		other.Go(func() { doubled, failed = g.Do(t.Context(), 2) })
		_, err := g.Do(short, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		other.Wait()
		require.NoError(t, failed)
		require.Equal(t, 4, doubled)
		_, err = g.Do(short, 3)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		g.Close()
		require.Equal(t, []int{2}, got)
	})
}
