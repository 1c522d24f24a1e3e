package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestLastOutcomesOfSeveralDays reads the latest outcomes of timers that fired today, days ago, or
// never, where outcomes have partitions by day, and where they have none.
func TestLastOutcomesOfSeveralDays(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		lastOutcomesOfSeveralDays(t, openSQLite(t, sqlstore.SQLiteOptions{}))
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		lastOutcomesOfSeveralDays(t, openMySQL(t, sqlstore.MySQLOptions{DSN: testenv.MySQL(t)}))
	})
}

func lastOutcomesOfSeveralDays(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	at, err := s.Now(ctx)
	require.NoError(t, err)
	now, day := at.UnixMilli(), (24 * time.Hour).Milliseconds()
	require.NoError(t, s.PurgePartitions(ctx, now-9*day, now-10*day)) // partitions of past days
	require.NoError(t, s.PurgePartitions(ctx, now, now-10*day))
	require.NoError(
		t,
		s.OpenSession(ctx, store.Session{ID: 1, Kind: store.ExecutorSession, Name: "x"}),
	)
	fires := map[string][]int64{ // due instants, the latest last
		"today":           {now - 2*day, now - day/24},
		"late today":      {now - 5*day},
		"a day ago":       {now - 3*day, now - day - 1},
		"days ago":        {now - 9*day, now - 6*day},
		"the same second": {now - 1000, now - 999},
	}
	want := make(map[timer.ID]int64)
	var ids []timer.ID
	for name, dues := range fires {
		plan := func(tm *timer.Timer, _ int64) store.Plan {
			p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			for _, due := range dues {
				p.Fires = append(p.Fires,
					timer.Fire{FireID: timer.FireID{Timer: tm.ID, DueMS: due}, RunAtMS: due})
			}
			return p
		}
		out, err := s.Create(ctx, []store.NewTimer{{App: "app", Name: name, Activate: true}}, plan)
		require.NoError(t, err)
		won, err := s.Claim(ctx, 1, out[0].Fires)
		require.NoError(t, err)
		require.Len(t, won, len(dues))
		var outcomes []timer.Outcome
		for _, f := range won {
			finished := f.DueMS + 100
			if name == "late today" {
				finished = now
			}
			outcomes = append(outcomes, timer.Outcome{
				Fire: f, Kind: timer.Delivered, FinishedMS: finished, UntilMS: f.DueMS, Count: 1,
			})
		}
		lost, _, err := s.Record(ctx, 1, outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		id := out[0].Timer.ID
		ids, want[id] = append(ids, id), dues[len(dues)-1]
	}
	never, err := s.Create(ctx, []store.NewTimer{{App: "app", Name: "never"}}, nil)
	require.NoError(t, err)
	last, err := s.LastOutcomes(ctx, append(ids, never[0].Timer.ID))
	require.NoError(t, err)
	got := make(map[timer.ID]int64)
	for id := range last {
		got[id] = last[id].DueMS
	}
	require.Equal(t, want, got)
}
