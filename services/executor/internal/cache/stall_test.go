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
		stalled := time.Now().Add(time.Minute)
		c.opts.Written = func() time.Time {
			if now := time.Now(); now.Before(stalled) || now.After(stalled.Add(2*time.Minute)) {
				return now
			}
			return stalled
		}
		run(t, c)
		time.Sleep(time.Minute - time.Second)
		g.failOver([]store.Change{change(4), change(6)})
		time.Sleep(2 * time.Minute)
		require.True(t, seen(6))
		g.failOver([]store.Change{change(4), change(5), change(6)})
		time.Sleep(time.Second)
		require.True(t, seen(5))
		time.Sleep(time.Minute + 2*changesOverlap)
		mu.Lock()
		changed = nil
		mu.Unlock()
		time.Sleep(time.Second)
		require.False(t, seen(5), "once writes succeed, the overlap is short again")
	})
}
