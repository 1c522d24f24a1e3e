package sqlstore_test

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// previous is what a program of schema 2 sends, in both dialects.
var previous = []struct{ mysql, sqlite string }{
	{
		mysql: "INSERT INTO fires (due_ms,timer_id,series,run_at_ms,bucket,app_id,version,epoch,cause,state,attempt,late_ms,rev,owner,sweeps,run_at_minute) VALUES " +
			"(5,?,0,5,0,1,1,1,0,0,0,0,0,0,0,0) ",
	},
	{
		mysql: "INSERT INTO fires (due_ms,timer_id,series,run_at_ms,bucket,app_id,version,epoch,cause,state,attempt,late_ms,rev,owner,sweeps,run_at_minute) VALUES " +
			"(5,?,0,6,0,1,1,1,0,1,1,0,1,0,0,0) ON DUPLICATE KEY UPDATE run_at_ms=VALUES(run_at_ms),state=VALUES(state),attempt=VALUES(attempt)",
		sqlite: "INSERT INTO fires (due_ms,timer_id,series,run_at_ms,bucket,app_id,version,epoch,cause,state,attempt,late_ms,rev,owner,sweeps,run_at_minute) VALUES " +
			"(5,?,0,6,0,1,1,1,0,1,1,0,1,0,0,0) ON CONFLICT (due_ms,timer_id,series) DO UPDATE SET run_at_ms=excluded.run_at_ms,state=excluded.state,attempt=excluded.attempt",
	},
	{
		mysql: "INSERT INTO outcomes (finished_ms,timer_id,due_ms,series,until_ms,fires,run_at_ms,app_id,version,epoch,cause,rev,owner,kind,reason,attempts," +
			"lateness_ms,status_code,duration_ms) VALUES (1000,?,7,0,7,1,7,1,1,1,0,0,3,'failed','exhausted',2,1,500,9) ON DUPLICATE KEY UPDATE series=series",
		sqlite: "INSERT INTO outcomes (finished_ms,timer_id,due_ms,series,until_ms,fires,run_at_ms,app_id,version,epoch,cause,rev,owner,kind,reason,attempts," +
			"lateness_ms,status_code,duration_ms) VALUES (1000,?,7,0,7,1,7,1,1,1,0,0,3,'failed','exhausted',2,1,500,9) ON CONFLICT DO NOTHING",
	},
	{
		mysql: "INSERT INTO attempts (finished_ms,timer_id,due_ms,series,n,start_ms,status_code,error,excerpt) VALUES (1000,?,7,0,1,990,500,'no','x') " +
			"ON DUPLICATE KEY UPDATE n=n",
		sqlite: "INSERT INTO attempts (finished_ms,timer_id,due_ms,series,n,start_ms,status_code,error,excerpt) VALUES (1000,?,7,0,1,990,500,'no','x') " +
			"ON CONFLICT DO NOTHING",
	},
	{
		mysql: "INSERT INTO sessions (id,kind,name,renewals,inflight_full,oldest_task_ms,opened_ms,renewed_ms,ended_ms) VALUES (?,'executor','x',0,0,0,1,1,0)",
	},
	{
		mysql: "INSERT INTO timers (id,app_id,name,live_name,status,version,active_since_ms,active_epoch,next_due_ms,expand_at_ms,fires_created,maker,created_ms," +
			"updated_ms) VALUES (?,1,'x',NULL,0,1,0,1,0,0,0,0,1,1)",
	},
}

// requireUpgrade has a program of schema 2 write before the migration to schema 3 and after it, and
// looks whether this one reads both.
func requireUpgrade(
	t *testing.T,
	db *sqlx.DB,
	kind goose.Dialect,
	folder string,
	open func() *sqlstore.Store,
) {
	t.Helper()
	ctx := t.Context()
	files, err := fs.Sub(sqlstore.Migrations(), "migrations/"+folder)
	require.NoError(t, err)
	p, err := goose.NewProvider(
		kind,
		db.DB,
		files,
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	require.NoError(t, err)
	_, err = p.UpTo(ctx, 2)
	require.NoError(t, err)
	write := func(id int64) {
		t.Helper()
		for _, q := range previous {
			text := q.mysql
			if folder == "sqlite" && q.sqlite != "" {
				text = q.sqlite
			}
			_, err := db.ExecContext(ctx, text, id)
			require.NoError(t, err, text)
		}
	}
	_, err = db.ExecContext(ctx, "INSERT INTO apps (id,name,created_ms) VALUES (1,'app',1)")
	require.NoError(t, err)
	write(11)
	_, err = p.UpTo(ctx, 3)
	require.NoError(t, err)
	write(12)
	s := open()
	for _, id := range []timer.ID{11, 12} {
		rec, err := s.Fire(ctx, "app", timer.FireID{Timer: id, DueMS: 7})
		require.NoError(t, err)
		require.Equal(t, timer.Failed, rec.Outcome.Kind)
		require.Len(t, rec.Attempts, 1)
		require.Equal(t, "no", rec.Attempts[0].Error)
		rec, err = s.Fire(ctx, "app", timer.FireID{Timer: id, DueMS: 5})
		require.NoError(t, err)
		require.EqualValues(t, 1, rec.Open.Attempt)
		require.Equal(t, timer.LevelNormal, rec.Open.PriorityLevel)
		out, err := s.Redrive(ctx, store.RedriveQuery{App: "app", Timer: id}, 1, true)
		require.NoError(t, err)
		require.Len(t, out.Outcomes, 1, "by its timer")
	}
	out, err := s.Redrive(ctx, store.RedriveQuery{App: "app"}, 1, true)
	require.NoError(t, err)
	require.Len(t, out.Outcomes, 1, "by its app, what failed before the migration")
	require.NoError(t, s.PurgeExpired(ctx, 7*24*time.Hour))
}

func TestSQLiteUpgradeTo3(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := sqlx.Open("sqlite", filepath.Join(dir, "carillon.db"))
	require.NoError(t, err)
	requireUpgrade(t, db, goose.DialectSQLite3, "sqlite", func() *sqlstore.Store {
		require.NoError(t, db.Close())
		return openSQLite(t, sqlstore.SQLiteOptions{Dir: dir})
	})
}

func TestMySQLUpgradeTo3(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	db, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer db.Close()
	requireUpgrade(
		t,
		db,
		goose.DialectMySQL,
		"mysql",
		func() *sqlstore.Store { return openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}) },
	)
}
