package slicing_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/timer"
)

func fireID(n int) timer.FireID { return timer.FireID{Timer: timer.ID(n + 1), DueMS: 600_000} }

const minute = 10

func TestBucketUsesOnlyCommittedCounts(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(100)
	for i := range 250 {
		require.Zero(t, c.Bucket(fireID(i), minute), "only one bucket is committed")
	}
	require.Equal(t, []slicing.Growth{{Minute: minute, Added: 250, Buckets: 3}}, c.Take())
	require.Empty(t, c.Take(), "tallies are reset")
	require.Zero(t, c.Bucket(fireID(0), minute), "the wanted count is not committed yet")

	c.Refresh([]slicing.MinuteCount{{Minute: minute, Buckets: 3, Estimate: 250}})
	seen := map[int32]int{}
	for i := range 3000 {
		b := c.Bucket(fireID(i), minute)
		require.Equal(
			t,
			b,
			c.Bucket(fireID(i), minute),
			"a fire keeps its bucket while the count is unchanged",
		)
		seen[b]++
	}
	require.Len(t, seen, 3)
	for b, n := range seen {
		require.Less(t, b, int32(3))
		require.InDelta(t, 1000, n, 150, "buckets are even")
	}
	require.Equal(t, []slicing.Growth{{Minute: minute, Added: 6001, Buckets: 63}}, c.Take())
}

func TestFiresOfOneTimerSpreadOverBuckets(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(1)
	c.Refresh([]slicing.MinuteCount{{Minute: minute, Buckets: 8}})
	seen := map[int32]bool{}
	for i := range 60 {
		seen[c.Bucket(timer.FireID{Timer: 1, DueMS: int64(i) * 1000}, minute)] = true
		seen[c.Bucket(timer.FireID{Timer: 1, Series: int64(i)}, minute)] = true
	}
	require.Len(t, seen, 8)
}

func TestRefreshNeverLowersCounts(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(100)
	c.Refresh([]slicing.MinuteCount{{Minute: minute, Buckets: 4, Estimate: 400}})
	c.Refresh([]slicing.MinuteCount{{Minute: minute, Buckets: 2, Estimate: 100}})
	c.Bucket(fireID(1), minute)
	require.Equal(t, []slicing.Growth{{Minute: minute, Added: 1, Buckets: 5}}, c.Take())
}

func TestBucketCountIsBounded(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(0) // treated as 1
	for i := range 1000 {
		c.Bucket(fireID(i), minute)
	}
	require.Equal(
		t,
		[]slicing.Growth{{Minute: minute, Added: 1000, Buckets: slicing.MaxBuckets}},
		c.Take(),
	)
	c.Refresh(
		[]slicing.MinuteCount{{Minute: minute, Buckets: slicing.MaxBuckets, Estimate: 1 << 60}},
	)
	c.Bucket(fireID(1), minute)
	require.Equal(t, slicing.MaxBuckets, c.Take()[0].Buckets)
}

func TestReturnCountsAgain(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(100)
	c.Bucket(fireID(1), minute+1)
	c.Bucket(fireID(2), minute)
	taken := c.Take()
	require.Equal(
		t,
		[]slicing.Growth{
			{Minute: minute, Added: 1, Buckets: 1},
			{Minute: minute + 1, Added: 1, Buckets: 1},
		},
		taken,
	)
	c.Bucket(fireID(3), minute)
	c.Return(taken)
	require.Equal(
		t,
		[]slicing.Growth{
			{Minute: minute, Added: 2, Buckets: 1},
			{Minute: minute + 1, Added: 1, Buckets: 1},
		},
		c.Take(),
	)
}

func TestDropKeepsUnflushedTallies(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(100)
	c.Refresh(
		[]slicing.MinuteCount{
			{Minute: 1, Buckets: 4},
			{Minute: 2, Buckets: 4},
			{Minute: 3, Buckets: 4},
		},
	)
	c.Bucket(fireID(1), 2)
	c.Drop(3)
	require.Equal(t, []slicing.Growth{{Minute: 2, Added: 1, Buckets: 4}}, c.Take())
	c.Drop(3)
	for i := range 100 {
		require.Zero(t, c.Bucket(fireID(i), 1), "dropped: one bucket, which is always safe")
	}
	c.Bucket(fireID(0), 3)
	growth := c.Take()
	require.Equal(t, int32(4), growth[len(growth)-1].Buckets, "a minute that is not over is kept")
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	c := slicing.NewCounts(100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := int64(0)
	flush := func() {
		for _, g := range c.Take() {
			mu.Lock()
			total += g.Added
			mu.Unlock()
			c.Refresh(
				[]slicing.MinuteCount{{Minute: g.Minute, Buckets: g.Buckets, Estimate: g.Added}},
			)
		}
	}
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				c.Bucket(fireID(i), int64(i%7))
				if i%100 == 0 {
					flush()
				}
			}
		})
	}
	wg.Wait()
	flush()
	require.EqualValues(t, 4000, total)
}

func BenchmarkBucket(b *testing.B) {
	c := slicing.NewCounts(100)
	c.Refresh([]slicing.MinuteCount{{Minute: minute, Buckets: 8}})
	b.ReportAllocs()
	for b.Loop() {
		c.Bucket(fireID(1), minute)
	}
}
