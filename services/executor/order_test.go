package executor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// lateCalls returns the due times of calls that started more than by late, in the order of their
// start.
func (d *deployment) lateCalls(by time.Duration) (dues []int64) {
	calls, at := d.rcv.seen()
	for i := range calls {
		if at[i].Sub(time.UnixMilli(calls[i].Fire.DueMS)) > by && calls[i].Attempt == 1 {
			dues = append(dues, calls[i].Fire.DueMS-d.began.UnixMilli())
		}
	}
	return dues
}

// TestCatchUpsGoInOrder checks that late fires of fire_all start in order of due time: rows from
// before an outage and after it, from any source.
func TestCatchUpsGoInOrder(t *testing.T) {
	t.Parallel()
	for name, down := range map[string][]outage{
		"all rows exist":                  {{5500 * time.Millisecond, 20 * time.Second}},
		"most rows are inserted after it": {{5500 * time.Millisecond, 70 * time.Second}},
		"two outages":                     {{5500 * time.Millisecond, 25 * time.Second}, {26 * time.Second, 60 * time.Second}},
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

// TestCatchUpsWaitForOtherExecutors checks that a late fire waits for an earlier one of another
// session until that starts or ends. Without progress it waits no longer than the expiry of a
// session takes.
func TestCatchUpsWaitForOtherExecutors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then func(ctx context.Context, st store.Store, session timer.ID, f timer.Fire) error
		by   time.Duration // when the later fires may start
	}{
		"it starts": {then: func(ctx context.Context, st store.Store, session timer.ID, f timer.Fire) error {
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
		"it makes no progress": {then: func(context.Context, store.Store, timer.ID, timer.Fire) error { return nil }, by: 19 * time.Second},
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
						d.Store.OpenSession(
							d.t.Context(),
							store.Session{ID: other, Kind: store.ExecutorSession, Name: "other"},
						),
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

// TestCatchUpsClaimWhatGoesBeforeThem checks that a late fire makes its executor claim the
// unclaimed earlier ones, whose tasks may come last.
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
				"which was released with a task",
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
			d.at(23 * time.Second)
			before := make([]timer.Fire, 0, 5)
			for s := range 5 {
				due := d.began.Add(time.Duration(7+s) * time.Second).UnixMilli()
				before = append(before, timer.Fire{FireID: timer.FireID{Timer: d.id, DueMS: due}})
			}
			require.Equal(d.t, map[timer.Path]int{timer.PathOrder: 5}, paths(d.t, d.Parts, before))
		},
	)
}

// TestCatchUpsOutliveAStop checks that fires waiting for earlier ones are released by a stop, and
// called in order by the next executor.
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
				d.Store.OpenSession(
					d.t.Context(),
					store.Session{ID: other, Kind: store.ExecutorSession, Name: "other"},
				),
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
