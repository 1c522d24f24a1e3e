package sqlstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// upgrade writes as the release before wrote, on its schema and on the present one, and reads what
// becomes of it. The statements are that release's, literally.
func upgrade(t *testing.T, s *sqlstore.Store, onDuplicate string) {
	t.Helper()
	ctx := t.Context()
	exec := func(text string, args ...any) {
		t.Helper()
		_, err := s.Exec(ctx, text, args...)
		require.NoError(t, err, text)
	}
	const columns = "id,app_id,name,status,version,active_since_ms,active_epoch,next_due_ms,expand_at_ms,fires_created,created_ms,updated_ms"
	create := func(id, name string) {
		exec(
			"INSERT INTO timers ("+columns+",live_name,maker) VALUES ("+id+",1,?,1,1,2000,1,3000,4000,5,1000,2000,?,77)",
			name,
			name,
		)
		exec(
			"INSERT INTO timer_versions (timer_id,version,hash,definition) VALUES ("+id+",1,?,?)",
			[]byte(
				strings.Repeat("h", 32),
			),
			[]byte(
				`{"schedule":{"kind":"cron","specs":["@every 1m"]},"target":{"kind":"http","url":"http://a"},"retry":{}}`,
			),
		)
		exec("INSERT INTO timer_changes (timer_id,at_ms) VALUES (" + id + ",2000)")
	}
	require.NoError(t, s.MigrateTo(ctx, 1))
	exec("INSERT INTO apps (name,created_ms) VALUES (?,1)", "app")
	create("101", "before")
	require.NoError(t, s.Migrate(ctx))
	require.NoError(t, s.Ping(ctx))
	create("102", "after")
	for _, id := range []timer.ID{101, 102} {
		tm, err := s.Timer(ctx, "app", id)
		require.NoError(t, err)
		require.EqualValues(t, 1000, tm.AnchorMS, "they counted from the creation")
		require.EqualValues(t, 1000, tm.VersionMS)
		require.False(t, tm.Replan)
		states, err := s.States(ctx, []timer.ID{id})
		require.NoError(t, err)
		require.Equal(t, timer.State{
			ID:            id,
			App:           "app",
			AppID:         1,
			Name:          tm.Name,
			Status:        timer.StatusActive,
			Version:       1,
			ActiveSinceMS: 2000,
			ActiveEpoch:   1,
			AnchorMS:      1000,
			VersionMS:     1000,
		}, states[0])
	}
	changes, err := s.Changes(ctx, 0, 10)
	require.NoError(t, err)
	require.Len(t, changes, 2)
	require.Zero(t, changes[1].AppID)

	// What the release before writes over a row of this one leaves alone what it does not know.
	plan := func(t *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{
			NextDueMS:  max(t.NextDueMS, nowMS),
			ExpandAtMS: nowMS + time.Hour.Milliseconds(),
		}
	}
	out, err := s.SetStatus(
		ctx,
		[]store.StatusChange{
			{
				App:     "app",
				ID:      102,
				Status:  timer.StatusPaused,
				Reason:  "why",
				UntilMS: timer.NeverMS - 1,
			},
		},
		plan,
	)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	exec(
		"INSERT INTO timers (" + columns + ",live_name,maker) VALUES (102,1,'after',1,1,9000,2,9001,9002,6,1000,9000,NULL,0)" + onDuplicate,
	)
	tm, err := s.Timer(ctx, "app", 102)
	require.NoError(t, err)
	require.Equal(t, timer.StatusActive, tm.Status)
	require.EqualValues(t, 9002, tm.ExpandAtMS)
	require.EqualValues(t, 1000, tm.AnchorMS)
	require.Equal(t, "after", tm.Name)
}

func TestMySQLUpgrade(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	upgrade(
		t,
		s,
		" ON DUPLICATE KEY UPDATE status=VALUES(status),active_since_ms=VALUES(active_since_ms),active_epoch=VALUES(active_epoch),"+
			"next_due_ms=VALUES(next_due_ms),expand_at_ms=VALUES(expand_at_ms),fires_created=VALUES(fires_created),updated_ms=VALUES(updated_ms),"+
			"live_name=CASE WHEN VALUES(status)=2 THEN NULL ELSE timers.live_name END",
	)
}

func TestSQLiteUpgrade(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	upgrade(
		t,
		s,
		" ON CONFLICT (id) DO UPDATE SET status=excluded.status,active_since_ms=excluded.active_since_ms,active_epoch=excluded.active_epoch,"+
			"next_due_ms=excluded.next_due_ms,expand_at_ms=excluded.expand_at_ms,fires_created=excluded.fires_created,updated_ms=excluded.updated_ms,"+
			"live_name=CASE WHEN excluded.status=2 THEN NULL ELSE timers.live_name END",
	)
}

// TestMySQLMigrationCutOffHalfway: what a migration had done when it was cut off, it finds done and
// goes on.
func TestMySQLMigrationCutOffHalfway(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenMySQL(t.Context(), sqlstore.MySQLOptions{DSN: testenv.MySQL(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	ctx := t.Context()
	require.NoError(t, s.MigrateTo(ctx, 1))
	for _, text := range []string{
		"ALTER TABLE apps ADD COLUMN freeze_reason VARBINARY(256) NOT NULL DEFAULT '', ADD COLUMN frozen_ms BIGINT NOT NULL DEFAULT 0",
		"ALTER TABLE timer_changes ADD COLUMN app_id BIGINT NOT NULL DEFAULT 0",
	} {
		_, err := s.Exec(ctx, text)
		require.NoError(t, err)
	}
	require.NoError(t, s.Migrate(ctx))
	require.NoError(t, s.Ping(ctx))
	require.NoError(t, s.Migrate(ctx), "again")
}
