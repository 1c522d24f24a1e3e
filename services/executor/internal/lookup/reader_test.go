package lookup

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// trips records round trips that answer each number with its double.
type trips struct {
	mu      sync.Mutex
	batches [][]int
	running int
	most    int
	during  func(ctx context.Context, in []int) error
}

func (s *trips) read(ctx context.Context, in []int) ([]int, error) {
	s.mu.Lock()
	s.batches = append(s.batches, in)
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	if s.during != nil {
		if err := s.during(ctx, in); err != nil {
			return nil, err
		}
	}
	out := make([]int, len(in))
	for i, n := range in {
		out[i] = 2 * n
	}
	return out, nil
}

// answers collects answers.
type answers struct {
	mu  sync.Mutex
	got map[int]int
	err map[int]error
}

func (a *answers) of(q int) func(Answer[int]) {
	return func(got Answer[int]) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.got == nil {
			a.got, a.err = make(map[int]int), make(map[int]error)
		}
		if got.Err != nil {
			a.err[q] = got.Err
			return
		}
		a.got[q] = got.Value
	}
}

func TestQuestionsShareRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := new(trips), new(answers)
		s.during = func(context.Context, []int) error { time.Sleep(time.Second); return nil }
		r := New(Options{Max: 10, Concurrency: 2, Wait: time.Millisecond}, s.read)
		defer r.Close()
		for i := range 45 {
			r.Ask(int64(i%3), limit.Normal, i, a.of(i))
		}
		require.Equal(t, 45, r.Pending())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, r.Pending())
		require.Len(t, s.batches, 5)
		require.Equal(t, 2, s.most)
		require.Len(t, a.got, 45)
		for q, v := range a.got {
			require.Equal(t, 2*q, v)
		}
		require.Empty(t, r.groups)
	})
}

// TestAnAppWithoutAnswersDelaysNoOther checks that with PerApp the round trip of one app, which
// does not end, leaves the others theirs.
func TestAnAppWithoutAnswersDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := new(trips), new(answers)
		s.during = func(ctx context.Context, in []int) error {
			if in[0] < 100 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		r := New(Options{Max: 10, Concurrency: 2, PerApp: true, Wait: time.Millisecond}, s.read)
		for i := range 100 {
			r.Ask(1, limit.High, i, a.of(i))
		}
		r.Ask(2, limit.Low, 100, a.of(100))
		r.Ask(3, limit.Low, 101, a.of(101))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, map[int]int{100: 200, 101: 202}, a.got)
		require.Equal(t, 100, r.Pending())
		r.Close()
		require.Len(t, a.err, 100, "each question has an answer")
		require.Zero(t, r.Pending())
		r.Ask(2, limit.Low, 102, a.of(102))
		require.ErrorIs(t, a.err[102], ErrClosed)
	})
}

func TestHigherPrioritiesAreAskedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := new(trips), new(answers)
		r := New(Options{Max: 21, Wait: time.Millisecond}, s.read)
		defer r.Close()
		for i := range 100 {
			r.Ask(1, limit.Low, i, a.of(i))
		}
		for i := range 100 {
			r.Ask(1, limit.High, 100+i, a.of(100+i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		high := 0
		for _, q := range s.batches[0] {
			if q >= 100 {
				high++
			}
		}
		require.GreaterOrEqual(t, high, 19, "by weight")
		require.Len(t, a.got, 200)
	})
}

// TestAQuestionMayFollowAnAnswer checks that an answer may ask again, and that an error reaches
// every question of its batch.
func TestAQuestionMayFollowAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		s, a := new(trips), new(answers)
		s.during = func(_ context.Context, in []int) error {
			if in[0] < 2 {
				return boom
			}
			return nil
		}
		r := New(Options{Max: 10, Wait: time.Millisecond}, s.read)
		defer r.Close()
		for i := range 2 {
			r.Ask(1, limit.Normal, i, func(got Answer[int]) {
				a.of(i)(got)
				r.Ask(1, limit.Normal, 10+i, a.of(10+i))
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, map[int]error{0: boom, 1: boom}, a.err)
		require.Equal(t, map[int]int{10: 20, 11: 22}, a.got)
		require.Zero(t, r.Pending())
	})
}
