package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestPurgeKeepsOneShotsBehindABacklog runs an old one-shot while more fires are past due than a
// purge reads. They are due before that run.
func TestPurgeKeepsOneShotsBehindABacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSQLite(t, sqlstore.SQLiteOptions{})
		s.MaxPastDue = 2
		ctx := t.Context()
		const day = 24 * time.Hour
		once := func(name string, at time.Time) store.CreateResult {
			made, err := s.Create(ctx, []store.NewTimer{{
				App: "app", Name: name, Activate: true,
				Definition: timer.Definition{Schedule: timer.Schedule{Kind: timer.KindAt, At: &at}},
			}}, func(tm *timer.Timer, _ int64) store.Plan {
				return store.Plan{
					NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS,
					Fires: []timer.Fire{{
						FireID:  timer.FireID{Timer: tm.ID, DueMS: at.UnixMilli()},
						RunAtMS: at.UnixMilli(), AppID: tm.AppID, Version: 1, Epoch: tm.ActiveEpoch,
					}},
				}
			})
			require.NoError(t, err)
			require.NoError(t, made[0].Err)
			return made[0]
		}
		require.NoError(
			t,
			s.OpenSession(ctx, store.Session{ID: 7, Kind: store.ExecutorSession, Name: "x"}),
		)
		call := func(fires []timer.Fire) {
			won, err := s.Claim(ctx, 7, fires)
			require.NoError(t, err)
			_, _, err = s.Record(ctx, 7, []timer.Outcome{{
				Fire: won[0], Kind: timer.Delivered, Count: 1, Attempts: 1,
				FinishedMS: time.Now().UnixMilli(), UntilMS: won[0].DueMS,
			}}, nil)
			require.NoError(t, err)
		}
		old := once("old", time.Now().Add(time.Minute))
		call(old.Fires)
		first := once("first", time.Now().Add(10*day))
		once("second", time.Now().Add(10*day))
		time.Sleep(30 * day)
		now := time.Now().UnixMilli()
		run, err := s.AddFires(ctx, "app", old.Timer.ID, []timer.Fire{{
			FireID:  timer.FireID{Timer: old.Timer.ID, DueMS: now, Series: 1},
			RunAtMS: now, Cause: timer.CauseRunNow,
		}})
		require.NoError(t, err)
		expand := func() {
			time.Sleep(store.AddedFireRetention + time.Hour)
			_, _, err := s.Expand(ctx, 10, func(*timer.Timer, int64) store.Plan {
				return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			})
			require.NoError(t, err)
		}
		expand()
		require.NoError(t, s.PurgeTimers(ctx, 3*day, 3*day))
		_, err = s.Timer(ctx, "app", old.Timer.ID)
		require.NoError(t, err, "its fire is open")

		call(run)
		call(first.Fires)
		require.NoError(t, s.PurgeTimers(ctx, 3*day, 3*day))
		_, err = s.Timer(ctx, "app", old.Timer.ID)
		require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
	})
}

// TestPurgeRemovesFewLargeTimersAtOnce checks that a transaction removes few bytes: on SQLite nobody
// else writes meanwhile.
func TestPurgeRemovesFewLargeTimersAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSQLite(t, sqlstore.SQLiteOptions{})
		ctx := t.Context()
		removes := func(names string, bodies ...int) int {
			items := make([]store.NewTimer, len(bodies))
			for i, size := range bodies {
				items[i] = store.NewTimer{App: "app", Name: fmt.Sprint(names, i)}
				items[i].Definition.Target.Body = strings.Repeat("x", size)
			}
			made, err := s.Create(ctx, items, nil)
			require.NoError(t, err)
			deletions := make([]store.StatusChange, len(made))
			for i := range made {
				deletions[i] = store.StatusChange{
					App: "app", ID: made[i].Timer.ID, Status: timer.StatusDeleted,
				}
			}
			_, err = s.SetStatus(ctx, deletions, nil)
			require.NoError(t, err)
			time.Sleep(72 * time.Hour)
			n := 0
			s.OnStatement(func(text string) {
				if strings.HasPrefix(text, "DELETE FROM timers ") {
					n++
				}
			})
			require.NoError(t, s.PurgeTimers(ctx, store.MinTimerRetention, 0))
			s.OnStatement(nil)
			for i := range made {
				_, err := s.Timer(ctx, "app", made[i].Timer.ID)
				require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
			}
			return n
		}
		require.Equal(t, 1, removes("small", make([]int, 100)...))
		const mb = 1 << 20
		require.Equal(t, 4, removes("large", 3*mb, 4*mb, 2*mb, 9*mb, 1, 1))
		require.Zero(t, removes("none"))
	})
}

// TestPurgeLocksNoRecurringTimers checks that a purge of one-shots leaves recurring timers alone, those
// that have ended too: each purge comes upon all of them.
func TestPurgeLocksNoRecurringTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSQLite(t, sqlstore.SQLiteOptions{})
		ctx := t.Context()
		due := time.Now().Add(time.Minute).UnixMilli()
		kinds := []timer.ScheduleKind{timer.KindCron, timer.KindInterval, timer.KindAt}
		items := make([]store.NewTimer, len(kinds))
		for i, kind := range kinds {
			items[i] = store.NewTimer{App: "app", Name: string(kind), Activate: true}
			items[i].Definition.Schedule = timer.Schedule{Kind: kind}
		}
		made, err := s.Create(ctx, items, func(tm *timer.Timer, _ int64) store.Plan {
			p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			p.Fires = []timer.Fire{{
				FireID: timer.FireID{Timer: tm.ID, DueMS: due}, RunAtMS: due,
			}}
			if tm.Name == string(timer.KindInterval) { // it is due again in a year
				p.NextDueMS = due + 365*24*time.Hour.Milliseconds()
				p.ExpandAtMS = p.NextDueMS
			}
			return p
		})
		require.NoError(t, err)
		require.NoError(
			t,
			s.OpenSession(ctx, store.Session{ID: 7, Kind: store.ExecutorSession, Name: "x"}),
		)
		var outcomes []timer.Outcome
		for i := range made {
			won, err := s.Claim(ctx, 7, made[i].Fires)
			require.NoError(t, err)
			outcomes = append(outcomes, timer.Outcome{
				Fire: won[0], Kind: timer.Delivered, Count: 1, Attempts: 1,
				FinishedMS: time.Now().UnixMilli(), UntilMS: due,
			})
		}
		_, _, err = s.Record(ctx, 7, outcomes, nil)
		require.NoError(t, err)
		time.Sleep(30 * 24 * time.Hour)
		locks := 0
		s.OnStatement(func(text string) {
			if strings.Contains(text, "FROM backfills") {
				locks++
			}
		})
		for _, want := range []int{1, 0} {
			locks = 0
			require.NoError(t, s.PurgeTimers(ctx, 90*24*time.Hour, 3*24*time.Hour))
			require.Equal(t, want, locks)
		}
		s.OnStatement(nil)
		for i, kind := range kinds {
			_, err := s.Timer(ctx, "app", made[i].Timer.ID)
			if kind.OneShot() {
				require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
			} else {
				require.NoError(t, err)
			}
		}
	})
}
