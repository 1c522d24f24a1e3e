package cache

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestCommitBehindFailedPolls: a change is read whose number is lower than the last one before polls
// failed, or than the last one of the first poll.
func TestCommitBehindFailedPolls(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{0, 15 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c, g, _ := setup(t, servicetest.New(t, servicetest.Options{}))
			change := func(seq int64) store.Change {
				at := time.Now().Add(time.Duration(min(seq, 5)-5) * time.Minute) // 4 is older
				return store.Change{
					Seq: seq, AtMS: at.UnixMilli(), State: timer.State{ID: timer.ID(seq)},
				}
			}
			var mu sync.Mutex
			var seen []timer.ID
			c.opts.Changed = func(s *timer.State, _ time.Time) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, s.ID)
			}
			log := []store.Change{change(4), change(6)}
			g.failOver(log)
			run(t, c)
			time.Sleep(time.Millisecond)
			g.setAway(away > 0)
			g.failOver([]store.Change{log[0], change(5), log[1]})
			time.Sleep(away)
			g.setAway(false)
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			require.Contains(t, seen, timer.ID(5))
		})
	}
}

// TestCommitThatStalls: a change that becomes visible long after one with a later number is read,
// however long its commit took. The writes that the executor sends meanwhile stall, too.
func TestCommitThatStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, g, _ := setup(t, servicetest.New(t, servicetest.Options{}))
		change := func(seq int64) store.Change {
			return store.Change{Seq: seq, AtMS: 1, State: timer.State{ID: timer.ID(seq)}}
		}
		g.failOver([]store.Change{change(4)})
		var mu sync.Mutex
		var changed []timer.ID
		c.opts.Changed = func(s *timer.State, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			changed = append(changed, s.ID)
		}
		seen := func(id timer.ID) bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(changed, id)
		}
		var stalled time.Time // belongs to mu
		c.opts.Written = func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			if stalled.IsZero() {
				return time.Now()
			}
			return stalled
		}
		stall := func(at time.Time) {
			mu.Lock()
			defer mu.Unlock()
			stalled = at
		}
		run(t, c)
		time.Sleep(time.Minute)
		stall(time.Now())
		g.failOver([]store.Change{change(4), change(6)})
		time.Sleep(2*time.Minute + time.Millisecond)
		require.True(t, seen(6))
		g.failOver([]store.Change{change(4), change(5), change(6)})
		stall(time.Time{}) // at the same instant
		time.Sleep(time.Second)
		require.True(t, seen(5))
		time.Sleep(2 * changesOverlap)
		mu.Lock()
		changed = nil
		mu.Unlock()
		time.Sleep(time.Second)
		require.False(t, seen(5), "once writes succeed, the overlap is short again")
	})
}
