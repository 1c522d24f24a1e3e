package hold

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

func TestQueueServesAppsInTurn(t *testing.T) {
	t.Parallel()
	q := NewReady[any](never)
	var es []*inflight.Entry
	for i := range 1000 {
		es = append(es, entry(1, timer.ID(i+1), time.UnixMilli(0)))
	}
	es = append(es, entry(2, 5000, time.UnixMilli(0)))
	q.Push(es)
	for place := 1; ; place++ {
		d, ok := q.Pop()
		require.True(t, ok)
		if d.Entry.Fire.AppID == 2 {
			require.LessOrEqual(t, place, 2, "one app's burst delays another app's fire")
			break
		}
	}
	require.Equal(t, 1000, q.Len()+1)
}

func TestQueueGivesEachEntryOnce(t *testing.T) {
	t.Parallel()
	q := NewReady[any](never)
	const n = 5000
	var mu sync.Mutex
	seen := make(map[timer.ID]int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				d, ok := q.Pop()
				if !ok {
					return
				}
				mu.Lock()
				seen[d.Entry.Fire.Timer]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		q.Push([]*inflight.Entry{entry(int64(i%7), timer.ID(i+1), time.UnixMilli(0))})
	}
	require.Eventually(t, func() bool { return q.Len() == 0 }, 30*time.Second, time.Millisecond)
	left := q.Close()
	workers.Wait()
	require.Empty(t, left)
	require.Len(t, seen, n)
	for id, times := range seen {
		require.Equal(t, 1, times, "timer %d", id)
	}
}

func TestQueueSaysHowManyWorkersAreShort(t *testing.T) {
	t.Parallel()
	q := NewReady[any](never)
	require.Equal(
		t,
		3,
		q.Push(
			[]*inflight.Entry{
				entry(1, 1, time.UnixMilli(0)),
				entry(1, 2, time.UnixMilli(0)),
				entry(1, 3, time.UnixMilli(0)),
			},
		),
	)
	require.Len(t, q.Close(), 3)
	_, ok := q.Pop()
	require.False(t, ok)
}

// TestDecidedFiresGoBeforeTheirAppsOnly checks that a decided fire keeps its turn: it precedes the
// fires of its app, and no other app's.
func TestDecidedFiresGoBeforeTheirAppsOnly(t *testing.T) {
	t.Parallel()
	q := NewReady[int](never)
	for app := range int64(2) {
		for i := range 3 {
			q.Push([]*inflight.Entry{entry(app, timer.ID(10*app)+timer.ID(i), time.UnixMilli(0))})
		}
	}
	for i := range 3 {
		_, ok := q.PushDecided(
			Due[int]{Entry: entry(1, timer.ID(100+i), time.UnixMilli(0)), Known: i + 1},
			false,
		)
		require.True(t, ok)
	}
	_, ok := q.PushDecided(Due[int]{Entry: entry(0, 200, time.UnixMilli(0)), Known: 4}, true)
	require.True(t, ok)
	var ids []timer.ID
	var known []int
	for q.Len() > 0 {
		d, ok := q.Pop()
		require.True(t, ok)
		ids, known = append(ids, d.Entry.Fire.Timer), append(known, d.Known)
	}
	require.Equal(t, []timer.ID{200, 0, 100, 1, 101, 2, 102, 10, 11, 12}, ids)
	require.Equal(t, []int{4, 0, 1, 0, 2, 0, 3, 0, 0, 0}, known)
	q.Close()
	_, ok = q.PushDecided(Due[int]{Entry: entry(0, 1, time.UnixMilli(0))}, false)
	require.False(t, ok)
}

func never() bool { return false }

// TestQueueWaitsForRecords checks that pop waits while too many results are unrecorded, and then
// goes on.
func TestQueueWaitsForRecords(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	full.Store(true)
	q := NewReady[any](full.Load)
	q.Push([]*inflight.Entry{{Fire: timer.Fire{AppID: 1}}})
	got := make(chan *inflight.Entry, 1)
	go func() {
		d, _ := q.Pop()
		got <- d.Entry
	}()
	require.Never(t, func() bool { return len(got) > 0 }, 50*time.Millisecond, 5*time.Millisecond)
	full.Store(false)
	q.Wake()
	require.NotNil(t, <-got)
	full.Store(true)
	q.Push([]*inflight.Entry{{Fire: timer.Fire{AppID: 1}}})
	require.Len(t, q.Close(), 1, "close does not wait for records")
}

func TestOnTimeFiresAreServedBeforeLateOnes(t *testing.T) {
	t.Parallel()
	q := NewReady[any](func() bool { return false })
	entry := func(app int64, due int64, late bool, l timer.PriorityLevel) *inflight.Entry {
		e := &inflight.Entry{
			Fire: timer.Fire{
				FireID:        timer.FireID{Timer: 1, DueMS: due},
				AppID:         app,
				PriorityLevel: l,
			},
		}
		e.Late.Store(late)
		return e
	}
	var es []*inflight.Entry
	const n = 210
	for i := range int64(n) {
		es = append(
			es,
			entry(1, i, true, timer.LevelHigh),
			entry(2, i, false, timer.LevelNormal),
			entry(2, n+i, false, timer.LevelHigh),
		)
	}
	q.Push(es)
	got := map[string]int{}
	for range n {
		d, ok := q.Pop()
		require.True(t, ok)
		switch {
		case d.Entry.Late.Load():
			got["late"]++
		case d.Entry.Fire.PriorityLevel == timer.LevelHigh:
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
	require.Equal(t, 2*n, q.Len())

	burst := &inflight.Entry{Low: true}
	require.Equal(t, limit.Low, burst.QueuePriority())
	burst.Fire.Attempt = 1
	require.Equal(
		t,
		limit.Normal,
		burst.QueuePriority(),
		"a retry keeps the priority of its fire",
	)
}
