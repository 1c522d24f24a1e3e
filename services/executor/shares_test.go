package executor_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestPrioritiesOfALimitedAppHaveTheirShares checks a burst of one app beyond its rate. Each
// priority with due fires has its share of any 42 calls in a row. This holds with one and two
// executors, for fires waiting in memory and in the store.
func TestPrioritiesOfALimitedAppHaveTheirShares(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"one"}, {"one", "two"}} {
		synctest.Test(t, func(t *testing.T) {
			parts := servicetest.New(t, servicetest.Options{})
			_, err := parts.Store.PutSettings(
				t.Context(),
				"a",
				store.AppSettings{Rate: 25, Burst: 1},
				0,
			)
			require.NoError(t, err)
			r := new(receiver)
			back := &releases{Store: parts.Store}
			ledger := memstate.New(nil)
			for _, name := range names {
				l, err := limit.New(limit.Options{SharedState: ledger, Executor: name, Share: 16})
				require.NoError(t, err)
				start(t, parts, name, r, func(o *executor.Options) { o.Limits, o.Store = l, back })
			}
			left := map[timer.Priority]int{
				timer.PriorityHigh:   300,
				timer.PriorityNormal: 100,
				timer.PriorityLow:    40,
			}
			due := time.Now().Add(time.Second)
			var defs []timer.Definition
			for p, n := range left {
				for range n {
					d := servicetest.Once(due, "http://127.0.0.1/")
					d.Priority, d.Labels = p, map[string]string{"priority": string(p)}
					defs = append(defs, d)
				}
			}
			rand.Shuffle(len(defs), func(i, j int) { defs[i], defs[j] = defs[j], defs[i] })
			fires := parts.Create("a", defs...)
			publishDue(t, parts, fires, 25*time.Second)
			require.Equal(t, map[string]int{"delivered": 440}, reasons(t, parts, fires))
			require.Positive(t, back.n.Load(), "long waits are in the store")

			calls, at := r.seen()
			require.Len(t, calls, 440)
			require.Less(t, at[439].Sub(due), 19*time.Second, "the rate is used up: 17.6 s of it")
			for i := range calls[:len(calls)-41] {
				got := map[timer.Priority]int{}
				for j := range calls[i : i+42] {
					got[timer.Priority(calls[i+j].Labels["priority"])]++
				}
				last := timer.Priority(calls[i].Labels["priority"])
				for p, share := range map[timer.Priority]int{timer.PriorityHigh: 32, timer.PriorityNormal: 8, timer.PriorityLow: 2} {
					if left[p] > got[p] { // it has due fires throughout
						require.GreaterOrEqual(
							t,
							got[p],
							share-1,
							"%s of calls %d to %d by %d: %v",
							p,
							i,
							i+41,
							len(names),
							got,
						)
					}
				}
				left[last]--
			}
		})
	}
}

// TestBackfillDelaysNoOtherTimerOfALimitedApp checks that the fires of a backfill wait for the rate of
// their app at low priority, in memory and in the store.
func TestBackfillDelaysNoOtherTimerOfALimitedApp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const fills = 600
		time.Sleep(time.Until(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))) // see ids of backfills
		parts := servicetest.New(t, servicetest.Options{})
		limits := store.AppSettings{Rate: 50, Burst: 10}
		_, err := parts.Store.PutSettings(t.Context(), "a", limits, 0)
		require.NoError(t, err)
		back := &releases{Store: parts.Store}
		start(t, parts, "one", new(receiver), func(o *executor.Options) {
			l, err := limit.New(limit.Options{
				SharedState: memstate.New(nil), Executor: "one", Share: 16,
			})
			require.NoError(t, err)
			o.Limits, o.Store = l, back
		})
		definition := servicetest.Once(time.Now(), "http://127.0.0.1/")
		definition.Schedule = timer.Schedule{
			Kind: timer.KindCron, Specs: []string{"* * * * * *"}, Zone: "UTC",
		}
		filled := parts.Create("a", definition)
		to := time.Now().Add(-time.Hour).Truncate(time.Second).UnixMilli()
		_, err = parts.Store.StartBackfill(t.Context(), store.Backfill{
			ID:     parts.IDs.Next(),
			App:    "a",
			Timer:  filled[0].Timer,
			FromMS: to - fills*1000,
			ToMS:   to,
		})
		require.NoError(t, err)
		var others []timer.Definition
		for i := range 10 {
			others = append(others, servicetest.Once(
				time.Now().Add(time.Duration(i+1)*time.Second), "http://127.0.0.1/"))
		}
		fires := parts.Create("a", others...)
		for n := 0; n < fills; {
			part, _, err := parts.Store.ExpandBackfills(t.Context(), 1, parts.Planner.PlanBackfill)
			require.NoError(t, err)
			require.NoError(t, parts.Dispatch.Publish(t.Context(), part))
			fires = append(fires, part...)
			n += len(part)
		}
		publishDue(t, parts, fires, time.Minute)
		require.Equal(t, map[string]int{"delivered": len(fires)}, reasons(t, parts, fires))
		require.Positive(t, back.n.Load(), "long waits are in the store")
		for i := range others {
			rec, err := parts.Store.Fire(t.Context(), "a", fires[i].FireID)
			require.NoError(t, err)
			// Due fires are published each second.
			require.Less(t, rec.Outcome.LatenessMS, int64(1500), i)
		}
	})
}
