package windowtest

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

func w1(t *testing.T, p Instance) {
	s := minute(0)
	f := fire(s, 10, 1)
	put(t, p, f, f)
	put(t, p, f)
	require.Equal(t, []timer.Fire{f}, all(t, p, s).Fires)

	claimed := f
	claimed.Owner, claimed.TargetBits = 9, 9
	put(t, p, claimed)
	require.Equal(t, []timer.Fire{f}, all(t, p, s).Fires, "Owner and TargetBits are not kept")

	later := f
	later.Rev, later.Attempt, later.State, later.FirstLatenessMS = 1, 1, timer.FireRetrying, 5
	series := f
	series.Series = 3
	put(t, p, later, series)
	require.ElementsMatch(t, []timer.Fire{f, later, series}, all(t, p, s).Fires)

	moved := f
	moved.Version = 9
	put(t, p, moved)
	require.ElementsMatch(
		t,
		[]timer.Fire{moved, later, series},
		all(t, p, s).Fires,
		"the same fire and revision, put again",
	)
}

func w2(t *testing.T, p Instance) {
	s := minute(0)
	var want []timer.Fire
	for i := range int64(60) {
		f := fire(s, i*1000, timer.ID(100-i))
		f.Series, f.Attempt, f.Rev, f.FirstLatenessMS, f.State = i%3, int32(
			i,
		), int32(
			i,
		), i, timer.FireState(
			i%2,
		)
		want = append(want, f)
	}
	shuffled := slices.Clone(want)
	for i := range shuffled {
		j := i * 7 % len(shuffled)
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	}
	put(t, p, shuffled[:20]...)
	require.Len(t, all(t, p, s).Fires, 20)
	put(t, p, shuffled[20:]...)
	require.Equal(t, want, all(t, p, s).Fires)

	for _, r := range []struct{ from, to, first, last int64 }{
		{0, 10_000, 1, 10},
		{-1, 0, 0, 0},
		{0, 999, 1, 0},
		{999, 1000, 1, 1},
		{58_999, 1 << 40, 59, 59},
		{59_000, 1 << 40, 60, 59},
		{5000, 5000, 6, 5},
		{9000, 5000, 6, 5},
		{math.MinInt64 / 2, 0, 0, 0},
	} {
		page, err := p.Window.Range(t.Context(), s, start(s)+r.from, start(s)+r.to, 100)
		require.NoError(t, err)
		require.False(t, page.More)
		require.Equal(
			t,
			append([]timer.Fire{}, want[r.first:max(r.last+1, r.first)]...),
			append([]timer.Fire{}, page.Fires...),
			"%+v",
			r,
		)
	}
	none, err := p.Window.Range(t.Context(), minute(9), 0, math.MaxInt64, 100)
	require.NoError(t, err)
	require.Equal(t, window.Page{}, none, "a slice that does not exist")
}

func w3(t *testing.T, p Instance) {
	s := minute(0)
	put(t, p, fire(s, 1, 1))
	require.Empty(t, all(t, p, s).Generation, "the slice was never opened")
	first := open(t, p, s)
	require.Equal(t, first, open(t, p, s))
	put(t, p, fire(s, 2, 2))
	page := all(t, p, s)
	require.Equal(t, first, page.Generation)
	require.Len(t, page.Fires, 2, "Open removes no entries")

	p.Flush(t)
	require.Equal(t, window.Page{}, all(t, p, s))
	put(t, p, fire(s, 3, 3))
	page = all(t, p, s)
	require.NotEqual(t, first, page.Generation, "a Put after the loss does not hide it")
	require.Len(t, page.Fires, 1)

	second := open(t, p, s)
	require.NotEqual(t, first, second)
	page = all(t, p, s)
	require.Equal(t, second, page.Generation)
	require.Len(t, page.Fires, 1)
}

func w3AtOnce(t *testing.T, p Instance) {
	s := minute(0)
	var wg sync.WaitGroup
	got := make([]string, 16)
	for i := range got {
		wg.Go(func() { got[i], _ = p.Window.Open(t.Context(), s) })
	}
	wg.Wait()
	require.NotEmpty(t, got[0])
	for _, g := range got {
		require.Equal(t, got[0], g)
	}
	require.Equal(t, got[0], all(t, p, s).Generation)
}

func w4(t *testing.T, p Instance) {
	s := minute(0)
	var want []timer.Fire
	for ms := range int64(40) {
		for id := range ms%7 + 1 {
			want = append(want, fire(s, ms*100, timer.ID(id+1)))
		}
	}
	crowd := int64(50_000)
	for id := range 300 {
		want = append(want, fire(s, crowd, timer.ID(id+1)))
	}
	put(t, p, want...)
	g := open(t, p, s)
	for _, limit := range []int{1, 2, 10, 299, 300, len(want) - 1, len(want), len(want) + 1} {
		var got []timer.Fire
		from, more := start(s)-1, true
		for more {
			page, err := p.Window.Range(t.Context(), s, from, math.MaxInt64, limit)
			require.NoError(t, err)
			require.NotEmpty(t, page.Fires)
			require.Equal(t, g, page.Generation)
			require.Greater(t, page.Fires[0].RunAtMS, from, "an instant is split over two pages")
			require.True(
				t,
				slices.IsSortedFunc(
					page.Fires,
					func(a, b timer.Fire) int { return int(a.RunAtMS - b.RunAtMS) },
				),
			)
			if page.Fires[0].RunAtMS != start(s)+crowd {
				require.Less(t, len(page.Fires), limit+300)
			}
			got, from, more = append(
				got,
				page.Fires...), page.Fires[len(page.Fires)-1].RunAtMS, page.More
		}
		require.Len(t, got, len(want), "limit %d", limit)
		require.ElementsMatch(t, want, got)
	}
}

func w5(t *testing.T, p Instance) {
	a, b := minute(0), minute(1)
	put(t, p, fire(a, 1, 1), fire(b, 1, 1))
	first := open(t, p, a)
	open(t, p, b)
	require.NoError(t, p.Window.Drop(t.Context(), a))
	require.Equal(t, window.Page{}, all(t, p, a))
	require.Len(t, all(t, p, b).Fires, 1)
	require.NoError(t, p.Window.Drop(t.Context(), a), "a second Drop")
	require.NotEqual(t, first, open(t, p, a))
}

func w6(t *testing.T, p Instance) {
	end := func(s window.Slice) time.Duration {
		return time.Until(time.UnixMilli(start(s) + timer.MinuteMS).Add(window.TTL))
	}
	marked, opened, both := minute(0), minute(1), minute(2)
	put(t, p, fire(marked, 1, 1), fire(both, 1, 1))
	open(t, p, opened)
	open(t, p, both)
	put(t, p, fire(both, 2, 1))
	for _, s := range []window.Slice{marked, opened, both} {
		require.InDelta(t, end(s).Seconds(), p.Remaining(t, s).Seconds(), 2)
	}
	late, over := minute(-12), minute(-20)
	put(t, p, fire(late, 1, 1), fire(over, 1, 1))
	require.Positive(t, p.Remaining(t, late), "a slice is kept after its minute")
	require.Len(t, all(t, p, late).Fires, 1)
	open(t, p, over)
	require.Equal(t, window.Page{}, all(t, p, over), "the slice has expired")
	require.LessOrEqual(t, p.Remaining(t, over), time.Duration(0))
}

func w7(t *testing.T, p Instance) {
	var fires []timer.Fire
	for m := range int64(10) {
		for b := range int32(4) {
			s := minute(m)
			s.Bucket = b
			for i := range int64(60) {
				fires = append(fires, fire(s, i*1000, timer.ID(m*1000+i+1)))
			}
		}
	}
	busy := minute(0)
	for i := range 3000 {
		fires = append(fires, fire(busy, 30_000, timer.ID(100_000+i)))
	}
	put(t, p, fires...)
	put(t, p)
	for m := range int64(10) {
		for b := range int32(4) {
			s := minute(m)
			s.Bucket = b
			want := 60
			if s == busy {
				want += 3000
			}
			require.Len(t, all(t, p, s).Fires, want)
		}
	}
}

func w7Reports(t *testing.T, p Instance) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := minute(0)
	require.Equal(
		t,
		timer.CodeUnavailable,
		timer.CodeOf(p.Window.Put(ctx, []timer.Fire{fire(s, 1, 1)})),
	)
	_, err := p.Window.Open(ctx, s)
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
	_, err = p.Window.Range(ctx, s, 0, 1, 1)
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(p.Window.Drop(ctx, s)))
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(p.Window.Ping(ctx)))
	require.NoError(t, p.Window.Ping(t.Context()))
}

func w8(t *testing.T, p Instance) {
	slice := func(m int64, b int32) window.Slice {
		s := minute(m)
		s.Bucket = b
		return s
	}
	all4 := []window.Slice{slice(0, 0), slice(0, 1), slice(1, 0), slice(0, 11)}
	generations := map[string]bool{}
	for i, s := range all4 {
		put(t, p, fire(s, 5, timer.ID(i+1)))
		generations[open(t, p, s)] = true
	}
	require.Len(t, generations, len(all4))
	for i, s := range all4 {
		require.Equal(t, []timer.Fire{fire(s, 5, timer.ID(i+1))}, all(t, p, s).Fires)
	}
}
