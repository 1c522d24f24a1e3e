package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestHotPath counts statements. A batch of first attempts is claimed with one and recorded as
// delivered with two. Only rare cases cost more: a retry is read back, and failures are noted.
func TestHotPath(t *testing.T) {
	t.Parallel()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: t.TempDir()})
	ctx := t.Context()
	now := int64(1_900_000_000_000)
	require.NoError(
		t,
		s.OpenSession(ctx, store.Session{ID: 11, Kind: store.ExecutorSession, Name: "a"}),
	)
	made, err := s.Create(
		ctx,
		[]store.NewTimer{{App: "app", Name: "t", Activate: true}},
		func(tm *timer.Timer, _ int64) store.Plan {
			p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			for i := range int64(10) {
				p.Fires = append(
					p.Fires,
					timer.Fire{
						FireID:  timer.FireID{Timer: tm.ID, DueMS: now + i},
						RunAtMS: now + i,
					},
				)
			}
			return p
		},
	)
	require.NoError(t, err)
	var sent []string
	s.OnStatement(func(text string) {
		verb, _, _ := strings.Cut(text, " (")
		sent = append(sent, strings.Join(strings.Fields(verb)[:3], " "))
	})
	expect := func(want ...string) {
		t.Helper()
		require.Equal(t, want, sent)
		sent = nil
	}
	won, err := s.Claim(ctx, 11, made[0].Fires)
	require.NoError(t, err)
	require.Len(t, won, 10)
	expect("UPDATE fires SET")
	outcome := func(f timer.Fire, kind timer.OutcomeKind) timer.Outcome {
		return timer.Outcome{Fire: f, Kind: kind, FinishedMS: now, UntilMS: f.DueMS, Count: 1}
	}
	_, _, err = s.Record(
		ctx,
		11,
		[]timer.Outcome{outcome(won[0], timer.Delivered), outcome(won[1], timer.Skipped)},
		nil,
	)
	require.NoError(t, err)
	expect("DELETE FROM fires", "INSERT INTO outcomes")
	_, _, err = s.Record(
		ctx,
		11,
		[]timer.Outcome{outcome(won[2], timer.Delivered), outcome(won[3], timer.Failed)},
		nil,
	)
	require.NoError(t, err)
	expect("DELETE FROM fires", "INSERT INTO outcomes", "INSERT INTO failed_outcomes")
	won[4].State, won[4].Attempt = timer.FireRetrying, 1
	retry, err := s.Release(ctx, 11, won[4:5], nil)
	require.NoError(t, err)
	sent = nil
	_, err = s.Claim(ctx, 11, retry)
	require.NoError(t, err)
	require.Len(t, sent, 2)
}

// TestOldestOpenLooksAgain: the fires of the first minute end while it is looked at. Those of the next
// one are overdue, too.
func TestOldestOpenLooksAgain(t *testing.T) {
	t.Parallel()
	const first, second = 1_600_000_000_000, 1_600_000_000_000 + timer.MinuteMS
	plan := func(tm *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
		for _, at := range []int64{first, second} {
			id := timer.FireID{Timer: tm.ID, DueMS: at}
			p.Fires = append(p.Fires, timer.Fire{FireID: id, RunAtMS: at})
		}
		return p
	}
	for _, before := range []string{"SELECT MAX(bucket)", "SELECT MIN(run_at_ms) FROM ("} {
		s := openSQLite(t, sqlstore.SQLiteOptions{Dir: t.TempDir()})
		ctx := t.Context()
		require.NoError(
			t, s.OpenSession(ctx, store.Session{ID: 11, Kind: store.ExecutorSession, Name: "a"}),
		)
		made, err := s.Create(
			ctx, []store.NewTimer{{App: "app", Name: "t", Activate: true}}, plan,
		)
		require.NoError(t, err)
		won, err := s.Claim(ctx, 11, made[0].Fires)
		require.NoError(t, err)
		oldest, err := s.OldestOpen(ctx)
		require.NoError(t, err)
		require.EqualValues(t, first, oldest)
		ended := false
		s.OnStatement(func(text string) {
			if ended || !strings.HasPrefix(text, before) {
				return
			}
			ended = true
			lost, _, err := s.Record(ctx, 11, []timer.Outcome{
				{Fire: won[0], Kind: timer.Delivered, UntilMS: first, Count: 1},
			}, nil)
			require.NoError(t, err)
			require.Empty(t, lost)
		})
		oldest, err = s.OldestOpen(ctx)
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, second, oldest)
	}
}
