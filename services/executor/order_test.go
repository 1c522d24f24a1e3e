package executor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// lateCalls are the calls that began more than a while late, in the order in which they began.
func (d *deployment) lateCalls(by time.Duration) (dues []int64) {
	calls, at := d.rcv.seen()
	for i := range calls {
		if at[i].Sub(time.UnixMilli(calls[i].Fire.DueMS)) > by && calls[i].Attempt == 1 {
			dues = append(dues, calls[i].Fire.DueMS-d.began.UnixMilli())
		}
	}
	return dues
}

// Late fires of fire_all begin in order of due: rows from before an outage, and those made after it, by whatever way they come.
func TestCatchUpsGoInOrder(t *testing.T) {
	t.Parallel()
	for name, down := range map[string][]outage{
		"all rows are there":     {{5500 * time.Millisecond, 20 * time.Second}},
		"most are made after it": {{5500 * time.Millisecond, 70 * time.Second}},
		"two outages":            {{5500 * time.Millisecond, 25 * time.Second}, {26 * time.Second, 60 * time.Second}},
	} {
		for endpoint, takes := range map[string]time.Duration{"quick": 0, "slow": 2 * time.Second} {
			t.Run(name+", "+endpoint, func(t *testing.T) {
				t.Parallel()
				deployed(t, every(time.Second), down, func(d *deployment) {
					d.rcv.mu.Lock()
					d.rcv.takes = takes
					d.rcv.mu.Unlock()
					d.at(100 * time.Second)
					late := d.lateCalls(5 * time.Second)
					require.IsIncreasing(d.t, late)
					require.GreaterOrEqual(d.t, len(late), 8)
					var want []int64
					for due := time.Second; due < ends(time.Second); due += time.Second {
						want = append(want, due.Milliseconds())
					}
					require.Subset(d.t, d.dues(), want)
				})
			})
		}
	}
}

// A late fire waits for an earlier one that another session has, until that begins or ends; and for one that makes no headway it waits no longer than it
// would take for a dead session to end.
func TestCatchUpsWaitForOtherExecutors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then func(ctx context.Context, st store.Store, session timer.ID, f timer.Fire) error
		by   time.Duration // when the later fires may have begun
	}{
		"it begins": {then: func(ctx context.Context, st store.Store, session timer.ID, f timer.Fire) error {
			f.FirstLatenessMS = 3000
			return st.Begin(ctx, session, []timer.Fire{f})
		}, by: 4 * time.Second},
		"it ends": {then: func(ctx context.Context, st store.Store, session timer.ID, f timer.Fire) error {
			_, _, err := st.Record(ctx, session, []timer.Outcome{{Fire: f, Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli(), UntilMS: f.DueMS, Count: 1, Attempts: 1}}, nil)
			return err
		}, by: 4 * time.Second},
		"it waits for a limit": {then: func(ctx context.Context, st store.Store, session timer.ID, f timer.Fire) error {
			f.State, f.RunAtMS = timer.FireDeferred, time.Now().Add(time.Hour).UnixMilli()
			_, err := st.Release(ctx, session, []timer.Fire{f}, nil)
			return err
		}, by: 4 * time.Second},
		"it makes no headway": {then: func(context.Context, store.Store, timer.ID, timer.Fire) error { return nil }, by: 14 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deployed(
				t,
				every(time.Second),
				[]outage{{5500 * time.Millisecond, 20 * time.Second}},
				func(d *deployment) {
					d.at(19 * time.Second)
					const other = 42
					require.NoError(
						d.t,
						d.Store.OpenSession(d.t.Context(), other, store.ExecutorSession, "other"),
					)
					done := make(chan struct{})
					ctx, cancel := context.WithCancel(d.t.Context())
					defer func() {
						cancel()
						<-done
					}()
					go func() {
						defer close(done)
						for ctx.Err() == nil {
							_, _ = d.Store.RenewSession(ctx, other, store.Load{})
							time.Sleep(500 * time.Millisecond)
						}
					}()
					first := timer.FireID{
						Timer: d.id,
						DueMS: d.began.Add(7 * time.Second).UnixMilli(),
					}
					open, err := d.Store.OpenAmong(d.t.Context(), []timer.FireID{first})
					require.NoError(d.t, err)
					won, err := d.Store.Claim(d.t.Context(), other, open)
					require.NoError(d.t, err)
					require.Len(d.t, won, 1)
					d.at(23 * time.Second)
					require.Equal(d.t, []int64{6000}, d.lateCalls(5*time.Second))
					require.NoError(d.t, tt.then(d.t.Context(), d.Store, other, won[0]))
					d.at(20*time.Second + tt.by)
					late := d.lateCalls(5 * time.Second)
					require.IsIncreasing(d.t, late)
					require.NotContains(d.t, late, int64(7000))
					require.Contains(d.t, late, int64(8000))
					require.GreaterOrEqual(d.t, len(late), 8)
				},
			)
		})
	}
}

// A late fire brings the earlier ones with it that nobody has claimed: theirs may be the tasks that come last.
func TestCatchUpsClaimWhatGoesBeforeThem(t *testing.T) {
	t.Parallel()
	deployed(
		t,
		every(time.Second),
		[]outage{{5500 * time.Millisecond, 20 * time.Second}},
		func(d *deployment) {
			d.deaf.Store(true)
			d.late.Store(true)
			d.at(21 * time.Second)
			require.Equal(
				d.t,
				[]int64{6000},
				d.lateCalls(time.Second),
				"which was given back with a task",
			)
			open, err := d.Store.OpenAmong(
				d.t.Context(),
				[]timer.FireID{{Timer: d.id, DueMS: d.began.Add(12 * time.Second).UnixMilli()}},
			)
			require.NoError(d.t, err)
			require.NoError(d.t, d.Dispatch.Publish(d.t.Context(), open))
			d.at(22 * time.Second)
			require.Equal(
				d.t,
				[]int64{6000, 7000, 8000, 9000, 10000, 11000, 12000},
				d.lateCalls(time.Second),
			)
		},
	)
}

// What waits for an earlier fire is given back by an executor that stops, and is called in order by the next.
func TestCatchUpsOutliveAStop(t *testing.T) {
	t.Parallel()
	deployed(
		t,
		every(time.Second),
		[]outage{{5500 * time.Millisecond, 20 * time.Second}, {22 * time.Second, 30 * time.Second}},
		func(d *deployment) {
			d.at(19 * time.Second)
			const other = 42
			require.NoError(
				d.t,
				d.Store.OpenSession(d.t.Context(), other, store.ExecutorSession, "other"),
			)
			open, err := d.Store.OpenAmong(
				d.t.Context(),
				[]timer.FireID{{Timer: d.id, DueMS: d.began.Add(7 * time.Second).UnixMilli()}},
			)
			require.NoError(d.t, err)
			_, err = d.Store.Claim(d.t.Context(), other, open)
			require.NoError(d.t, err)
			d.at(29 * time.Second)
			require.NotContains(d.t, d.lateCalls(5*time.Second), int64(8000))
			d.at(60 * time.Second)
			late := d.lateCalls(5 * time.Second)
			require.IsIncreasing(d.t, late)
			require.Contains(d.t, late, int64(7000))
			require.Contains(d.t, late, int64(20000))
		},
	)
}
