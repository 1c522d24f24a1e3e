package executor

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestQueueServesAppsInTurn(t *testing.T) {
	t.Parallel()
	q := newQueue(never)
	var es []*claimedFire
	for i := range 1000 {
		es = append(es, entry(1, timer.ID(i+1), time.UnixMilli(0)))
	}
	es = append(es, entry(2, 5000, time.UnixMilli(0)))
	q.push(es)
	for place := 1; ; place++ {
		e, ok := q.pop()
		require.True(t, ok)
		if e.fire.AppID == 2 {
			require.LessOrEqual(t, place, 2, "one app's burst delays another app's fire")
			break
		}
	}
	require.Equal(t, 1000, q.len()+1)
}

func TestQueueGivesEachEntryOnce(t *testing.T) {
	t.Parallel()
	q := newQueue(never)
	const n = 5000
	var mu sync.Mutex
	seen := make(map[timer.ID]int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				e, ok := q.pop()
				if !ok {
					return
				}
				mu.Lock()
				seen[e.fire.Timer]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		q.push([]*claimedFire{entry(int64(i%7), timer.ID(i+1), time.UnixMilli(0))})
	}
	require.Eventually(t, func() bool { return q.len() == 0 }, 30*time.Second, time.Millisecond)
	left := q.close()
	workers.Wait()
	require.Empty(t, left)
	require.Len(t, seen, n)
	for id, times := range seen {
		require.Equal(t, 1, times, "timer %d", id)
	}
}

func TestQueueSaysHowManyWorkersAreShort(t *testing.T) {
	t.Parallel()
	q := newQueue(never)
	require.Equal(
		t,
		3,
		q.push(
			[]*claimedFire{
				entry(1, 1, time.UnixMilli(0)),
				entry(1, 2, time.UnixMilli(0)),
				entry(1, 3, time.UnixMilli(0)),
			},
		),
	)
	require.Len(t, q.close(), 3)
	_, ok := q.pop()
	require.False(t, ok)
}

func never() bool { return false }

// TestQueueWaitsForRecords checks that pop waits while too many results are unrecorded, and then
// goes on.
func TestQueueWaitsForRecords(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	full.Store(true)
	q := newQueue(full.Load)
	q.push([]*claimedFire{{fire: timer.Fire{AppID: 1}}})
	got := make(chan *claimedFire, 1)
	go func() {
		e, _ := q.pop()
		got <- e
	}()
	require.Never(t, func() bool { return len(got) > 0 }, 50*time.Millisecond, 5*time.Millisecond)
	full.Store(false)
	q.wake()
	require.NotNil(t, <-got)
	full.Store(true)
	q.push([]*claimedFire{{fire: timer.Fire{AppID: 1}}})
	require.Len(t, q.close(), 1, "close does not wait for records")
}

func TestOnTimeFiresAreServedBeforeLateOnes(t *testing.T) {
	t.Parallel()
	q := newQueue(func() bool { return false })
	entry := func(app int64, due int64, late bool, l timer.PriorityLevel) *claimedFire {
		e := &claimedFire{
			fire: timer.Fire{
				FireID:        timer.FireID{Timer: 1, DueMS: due},
				AppID:         app,
				PriorityLevel: l,
			},
		}
		e.late.Store(late)
		return e
	}
	var es []*claimedFire
	const n = 210
	for i := range int64(n) {
		es = append(
			es,
			entry(1, i, true, timer.LevelHigh),
			entry(2, i, false, timer.LevelNormal),
			entry(2, n+i, false, timer.LevelHigh),
		)
	}
	q.push(es)
	got := map[string]int{}
	for range n {
		e, ok := q.pop()
		require.True(t, ok)
		switch {
		case e.late.Load():
			got["late"]++
		case e.fire.PriorityLevel == timer.LevelHigh:
			got["high"]++
		default:
			got["normal"]++
		}
	}
	require.Equal(
		t,
		map[string]int{"high": 160, "normal": 40, "late": 10},
		got,
		"by weight, and late fires are low, whatever their priority",
	)
	require.Equal(t, 2*n, q.len())

	burst := &claimedFire{low: true}
	require.Equal(t, limit.Low, effectivePriority(burst))
	burst.fire.Attempt = 1
	require.Equal(
		t,
		limit.Normal,
		effectivePriority(burst),
		"a retry keeps the priority of its fire",
	)
}
