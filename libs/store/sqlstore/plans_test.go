package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// wantPlans says how a statement that contains a text must reach a table. The first that fits counts.
var wantPlans = []struct{ part, mysql, sqlite string }{
	{"(due_ms,timer_id,series) IN (", "fires range PRIMARY", "SEARCH fires USING PRIMARY KEY (due_ms=? AND timer_id=? AND series=?)"},
	{"(timer_id,due_ms) IN (", "outcomes range by_timer", "SEARCH outcomes USING INDEX outcomes_by_timer (timer_id=? AND due_ms=?)"},
	{"MIN(run_min)", "Select tables optimized away", "SEARCH fires USING COVERING INDEX fires_by_run"},
	{"MIN(run_ms)", "", "SEARCH fires USING COVERING INDEX fires_by_run (run_min=? AND bucket=?)"},
	{"FROM fires FORCE INDEX (by_run)", "fires range by_run", ""},
	{"FROM fires INDEXED BY fires_by_run", "", "SEARCH fires USING INDEX fires_by_run ("},
	{"expand_at_ms<=", "timers range by_expand", "SEARCH timers USING "},
	{"FROM outcomes", "by_timer", "SEARCH outcomes USING INDEX outcomes_by_timer (timer_id=?"},
	{"FROM attempts", "attempts ref by_timer", "SEARCH attempts USING INDEX attempts_by_timer (timer_id=? AND due_ms=?"},
	{"UPDATE slices", "slices range PRIMARY", "SEARCH slices USING PRIMARY KEY (minute=? AND bucket=?)"},
}

// work does everything to a store that happens often, with enough rows that a scan would be seen.
func work(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	at, err := s.Now(ctx)
	require.NoError(t, err)
	now := at.UnixMilli()
	var items []store.NewTimer
	for i := range 300 {
		items = append(items, store.NewTimer{App: "app", Name: fmt.Sprint(i), Activate: true})
	}
	out, err := s.Create(ctx, items, func(tm *timer.Timer, _ int64) store.Plan {
		p := store.Plan{NextDueMS: now + timer.MinuteMS, ExpandAtMS: now}
		for i := range int64(10) {
			due := now + (i-8)*timer.MinuteMS/2
			p.Fires = append(p.Fires, timer.Fire{FireID: timer.FireID{Timer: tm.ID, DueMS: due}, RunMS: due})
		}
		return p
	})
	require.NoError(t, err)
	var fires []timer.Fire
	for _, c := range out {
		fires = append(fires, c.Fires...)
	}
	_, err = s.Cursor(ctx, timer.MinuteOf(now))
	require.NoError(t, err)
	require.NoError(t, s.OpenSession(ctx, 1, store.ExecutorSession, "a"))
	require.NoError(t, s.OpenSession(ctx, 2, store.ExecutorSession, "b"))
	won, err := s.Claim(ctx, 1, fires[:300])
	require.NoError(t, err)
	require.Len(t, won, 300)
	_, err = s.Claim(ctx, 2, fires[200:400])
	require.NoError(t, err)
	_, err = s.Release(ctx, 1, won[:10], nil)
	require.NoError(t, err)
	var outcomes []timer.Outcome
	for _, f := range won[10:] {
		outcomes = append(outcomes, timer.Outcome{Fire: f, Kind: timer.Delivered, FinishedMS: now, UntilMS: f.DueMS, Count: 1})
	}
	for range 2 {
		lost, _, err := s.Record(ctx, 1, outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
	}
	f := fires[1000]
	for _, after := range []store.Position{{}, {RunMS: f.RunMS, FireID: f.FireID}} {
		_, err = s.LoadSlice(ctx, f.RunMinute(), 0, after, now, 100)
		require.NoError(t, err)
	}
	for range 3 {
		_, err = s.Overdue(ctx, store.OverdueQuery{Live: []timer.ID{2}, Of: 2, Limit: 50})
		require.NoError(t, err)
	}
	_, err = s.Owned(ctx, []timer.ID{2}, now, 10)
	require.NoError(t, err)
	_, err = s.OldestOpen(ctx)
	require.NoError(t, err)
	_, err = s.History(ctx, "app", won[20].Timer, won[20].FireID, 10)
	require.NoError(t, err)
	_, err = s.Fire(ctx, "app", won[20].FireID)
	require.NoError(t, err)
	claims, err := s.ClaimSlices(ctx, timer.MinuteOf(now), 5, time.Minute, 5)
	require.NoError(t, err)
	_, err = s.RenewSlices(ctx, 1, claims, time.Minute)
	require.NoError(t, err)
	_, _, err = s.Expand(ctx, 10, func(tm *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: tm.NextDueMS, ExpandAtMS: nowMS}
	})
	require.NoError(t, err)
	_, _, err = s.ExpandBacklog(ctx, 10)
	require.NoError(t, err)
}

// requirePlans does the work twice: once to fill the tables, and once while it asks for the plan of every statement.
func requirePlans(t *testing.T, s *sqlstore.Store, explain func(ctx context.Context, text string) string, want func(i int) string) {
	t.Helper()
	var sent collector
	s.Watch(sent.watch)
	work(t, s)
	verbs := regexp.MustCompile("^(SELECT|UPDATE|DELETE)")
	seen := make([]bool, len(wantPlans))
	for _, text := range sent.forms {
		if !verbs.MatchString(text) {
			continue
		}
		for i, w := range wantPlans {
			if !strings.Contains(text, w.part) {
				continue
			}
			seen[i] = true
			if plan := explain(t.Context(), strings.ReplaceAll(text, "?", "'x'")); !strings.Contains(plan, want(i)) {
				t.Errorf("want %q, have:\n%s\nfor %.400s", want(i), plan, text)
			}
			break
		}
	}
	for i, w := range wantPlans {
		require.True(t, seen[i] || want(i) == "", "%s was not sent", w.part)
	}
}

// TestMySQLPlans asks the server how it runs the statements that matter: by the index that they are pinned to, without scans.
func TestMySQLPlans(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	explain := func(ctx context.Context, text string) string {
		var plan []struct {
			Table, Type, Key sql.NullString
			Extra            sql.NullString `db:"Extra"`
		}
		require.NoError(t, db.Unsafe().SelectContext(ctx, &plan, "EXPLAIN "+text), text)
		var lines []string
		for _, p := range plan {
			lines = append(lines, fmt.Sprintf("%s %s %s %s", p.Table.String, p.Type.String, p.Key.String, p.Extra.String))
		}
		return strings.Join(lines, "\n")
	}
	requirePlans(t, openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}), explain, func(i int) string { return wantPlans[i].mysql })
}

// TestSQLitePlans asks SQLite the same.
func TestSQLitePlans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	db, err := sqlx.Open("sqlite", filepath.Join(dir, "carillon.db"))
	require.NoError(t, err)
	defer db.Close()
	explain := func(ctx context.Context, text string) string {
		var plan []struct {
			ID, Parent, NotUsed int
			Detail              string
		}
		require.NoError(t, sqlx.SelectContext(ctx, db, &plan, "EXPLAIN QUERY PLAN "+text), text)
		var lines []string
		for _, p := range plan {
			lines = append(lines, p.Detail)
		}
		return strings.Join(lines, "\n")
	}
	requirePlans(t, s, explain, func(i int) string { return wantPlans[i].sqlite })
}
