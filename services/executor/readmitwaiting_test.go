package executor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestRaisedLimitsReadmitGrantedFires checks that a fire which waited for its predecessor, was
// granted the slot and is then deferred by a limit is called once that limit is raised.
func TestRaisedLimitsReadmitGrantedFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		parts := servicetest.New(t, servicetest.Options{})
		queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
		fires := everySecond(parts, 2, func(d *timer.Definition) { d.Concurrency = queue })
		time.Sleep(3 * time.Second)
		// The executor before: the first fire is called, the second one waits for it and asks again
		// just when the first ends. Then that executor dies.
		died := parts.IDs.Next()
		require.NoError(t, parts.Store.OpenSession(ctx, died, store.ExecutorSession, "died"))
		held, err := parts.Store.Claim(ctx, died, fires)
		require.NoError(t, err)
		require.Len(t, held, 2)
		ask := func(f timer.Fire) store.SlotResult {
			f.RunAtMS = time.Now().UnixMilli()
			out, err := parts.Store.AcquireSlots(
				ctx,
				died,
				[]store.SlotRequest{{Fire: f, Concurrency: queue}},
			)
			require.NoError(t, err)
			return out[0]
		}
		require.Equal(t, store.SlotGranted, ask(held[0]).SlotVerdict)
		queued := ask(held[1])
		require.Equal(t, store.SlotQueued, queued.SlotVerdict)
		again, err := parts.Store.Claim(ctx, died, []timer.Fire{queued.Fire})
		require.NoError(t, err)
		require.Len(t, again, 1)
		_, _, err = parts.Store.Record(ctx, died, []timer.Outcome{{
			Fire: held[0], Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli(),
			UntilMS: held[0].DueMS, Count: 1, Attempts: 1, Serial: true,
		}}, nil)
		require.NoError(t, err)
		_, err = parts.Store.PutSettings(ctx, "a", store.AppSettings{Rate: 0.001, Burst: 1}, 0)
		require.NoError(t, err)

		r := new(receiver)
		start(t, parts, "one", r, nil)
		parts.Dispatch.Committed(ctx, parts.Create("a", soon(3, 0)...)) // use up the limit
		time.Sleep(time.Second)
		require.Equal(t, 1, r.total())
		require.NoError(t, parts.Store.CloseSession(ctx, died))
		time.Sleep(20 * time.Second)
		rec, err := parts.Store.Fire(ctx, "a", fires[1].FireID)
		require.NoError(t, err)

		require.Zero(t, rec.Open.Owner)
		require.Greater(
			t,
			rec.Open.RunAtMS,
			time.Now().Add(time.Minute).UnixMilli(),
			"deferred by the limit",
		)
		_, err = parts.Store.PutSettings(ctx, "a", store.AppSettings{}, 0)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, fires[1:]))
	})
}
