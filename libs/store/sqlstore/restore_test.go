package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// fill creates timers with fires, some of them claimed by a session that is alive, some recorded.
func fill(t *testing.T, s *sqlstore.Store, n int) (fires []timer.Fire, session timer.ID) {
	t.Helper()
	fires = makeFires(t, s, "t", n, time.Now().Add(-time.Minute).UnixMilli())
	session = 77
	require.NoError(
		t,
		s.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "executor"},
		),
	)
	won, err := s.Claim(t.Context(), session, fires[:n/2])
	require.NoError(t, err)
	require.Len(t, won, n/2)
	return fires, session
}

// stopping is a target that fails after some parts.
type stopping struct {
	backup.Target

	left int
	fail error
}

func (s *stopping) Load(ctx context.Context, t *backup.Table, file string, rows [][]any) error {
	if s.left--; s.left < 0 {
		return s.fail
	}
	return s.Target.Load(ctx, t, file, rows)
}

// TestRestoreContinues interrupts a restore after each of its parts in turn, and before its end. No
// service can use the store meanwhile.
func TestRestoreContinues(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, fresh func(t *testing.T) database) {
		t.Helper()
		from := newSQLite(t)
		fill(t, from.service(t), 40)
		dir, m := from.write(t, backup.Options{PartRows: 15})
		other, _ := from.write(t, backup.Options{PartRows: 14})
		files, _ := m.Size()
		require.Greater(t, files, 8)
		to := fresh(t)
		refused := func() {
			t.Helper()
			_, err := to.open(t)
			var restoring *sqlstore.RestoringError
			require.ErrorAs(t, err, &restoring)
			require.ErrorContains(t, err, "run carillon restore with the same backup again")
			require.NotEqual(t, timer.CodeUnavailable, timer.CodeOf(err), "nobody waits for it")
		}
		interrupted := errors.New("interrupted")
		try := func(dir string, parts int, o backup.Options) error {
			t.Helper()
			r := to.restore(t)
			_, err := backup.Restore(t.Context(), dir, &stopping{r, parts, interrupted}, o)
			require.NoError(t, r.Close())
			return err
		}
		require.ErrorIs(t, try(other, 0, backup.Options{}), interrupted)
		refused()
		for range files {
			require.ErrorIs(t, try(dir, 1, backup.Options{}), interrupted)
			refused()
			if files--; files == 1 {
				break
			}
		}
		require.ErrorContains(t, try(other, 99, backup.Options{}), "another backup has begun")
		check := func(context.Context) error { return interrupted }
		require.ErrorIs(t, try(dir, 99, backup.Options{Check: check}), interrupted)
		refused()
		require.NoError(t, try(dir, 0, backup.Options{}), "nothing is left to load")
		require.Equal(t, from.dump(t), to.dump(t))
		s := to.service(t)
		require.NoError(t, s.Ping(t.Context()))
	})
}

// TestRestoreNeedsAnEmptyStore checks that a store in use is not touched, so that its services go
// on.
func TestRestoreNeedsAnEmptyStore(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, fresh func(t *testing.T) database) {
		t.Helper()
		from := newSQLite(t)
		fill(t, from.service(t), 4)
		dir, _ := from.write(t, backup.Options{})
		for name, use := range map[string]func(s *sqlstore.Store) error{
			"sessions": func(s *sqlstore.Store) error {
				return s.OpenSession(t.Context(), store.Session{ID: 7, Kind: store.SchedulerSession, Name: "scheduler"})
			},
			"processes": func(s *sqlstore.Store) error {
				return s.RegisterProcess(t.Context(), store.Process{ID: 7}, nil)
			},
			"apps": func(s *sqlstore.Store) error {
				_, err := s.PutSettings(t.Context(), "shop", store.AppSettings{}, 0)
				return err
			},
		} {
			to := fresh(t)
			s, err := to.open(t)
			require.NoError(t, err)
			require.NoError(t, use(s))
			require.NoError(t, s.Close())
			before := to.dump(t)
			r := to.restore(t)
			_, err = backup.Restore(t.Context(), dir, r, backup.Options{})
			require.ErrorContains(t, err, "it is not empty", name)
			require.Equal(t, timer.CodeConflict, timer.CodeOf(err))
			require.NoError(t, r.Close())
			require.Equal(t, before, to.dump(t))
			require.NoError(t, to.service(t).Ping(t.Context()))
		}
	})
}

// TestRestoreFindsOtherWriters checks that rows of a process that did not notice the restore stop
// it.
func TestRestoreFindsOtherWriters(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, fresh func(t *testing.T) database) {
		t.Helper()
		from := newSQLite(t)
		fill(t, from.service(t), 4)
		dir, _ := from.write(t, backup.Options{})
		to := fresh(t)
		r := to.restore(t)
		_, err := backup.Restore(t.Context(), dir, r, backup.Options{
			Check: func(ctx context.Context) error {
				var restoring *sqlstore.RestoringError
				require.ErrorAs(t, r.Store().Ping(ctx), &restoring, "it is not ready")
				return r.Store().
					OpenSession(ctx, store.Session{ID: 8, Kind: store.ExecutorSession, Name: "late"})
			},
		})
		require.ErrorContains(t, err, "table sessions has 2 rows after the restore, the backup 1")
		require.NoError(t, r.Close())
		_, err = to.open(t)
		var restoring *sqlstore.RestoringError
		require.ErrorAs(t, err, &restoring)
	})
}

// TestDamagedBackupsLoadNothing damages each kind of file. No service may use the store then, until
// another backup has been restored in its place.
func TestDamagedBackupsLoadNothing(t *testing.T) {
	t.Parallel()
	from := newSQLite(t)
	fill(t, from.service(t), 4)
	for name, damage := range map[string]func(dir, part string) error{
		"changed": func(dir, part string) error {
			b, err := os.ReadFile(filepath.Join(dir, part))
			b[len(b)/2] ^= 1
			return errors.Join(err, os.WriteFile(filepath.Join(dir, part), b, 0o600))
		},
		"truncated": func(dir, part string) error { return os.Truncate(filepath.Join(dir, part), 10) },
		"missing":   func(dir, part string) error { return os.Remove(filepath.Join(dir, part)) },
		"no manifest": func(dir, _ string) error {
			return os.Remove(filepath.Join(dir, "manifest.json"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, m := from.write(t, backup.Options{})
			i := slices.IndexFunc(m.Tables, func(p backup.Parts) bool { return p.Name == "timers" })
			require.NoError(t, damage(dir, m.Tables[i].Parts[0].File))
			_, err := backup.Verify(t.Context(), dir, backup.Options{})
			require.Error(t, err)
			to := newSQLite(t)
			r := to.restore(t)
			_, again := backup.Restore(t.Context(), dir, r, backup.Options{})
			require.Equal(t, err.Error(), again.Error())
			require.NoError(t, r.Close())
			if name != "no manifest" {
				_, err = to.open(t)
				var restoring *sqlstore.RestoringError
				require.ErrorAs(t, err, &restoring)
			}
			undamaged, _ := from.write(t, backup.Options{})
			r = to.restore(t)
			_, err = backup.Restore(t.Context(), undamaged, r, backup.Options{})
			require.NoError(t, err)
			require.NoError(t, r.Close())
			require.Equal(t, from.dump(t), to.dump(t))
			require.NoError(t, to.service(t).Ping(t.Context()))
		})
	}
}

// TestAnotherBackupTakesOver checks that a restore whose store another backup takes over, before the
// first part is there, loads nothing.
func TestAnotherBackupTakesOver(t *testing.T) {
	t.Parallel()
	from := newSQLite(t)
	fill(t, from.service(t), 10)
	first, m := from.write(t, backup.Options{})
	second, _ := from.write(t, backup.Options{})
	for _, name := range []string{"mysql", "galera"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := engines[name](t)
			a, b := to.restore(t), to.restore(t)
			_, err := a.Begin(t.Context(), "first", m)
			require.NoError(t, err)
			_, err = backup.Restore(t.Context(), second, &stopping{b, 1, io.EOF}, backup.Options{})
			require.ErrorIs(t, err, io.EOF)
			require.ErrorContains(t, a.Load(t.Context(), &m.Tables[0].Table, "part", nil),
				"another process")
			_, err = backup.Restore(t.Context(), first, a, backup.Options{})
			require.ErrorContains(t, err, "another backup has begun")
			_, err = backup.Restore(t.Context(), second, b, backup.Options{})
			require.NoError(t, err)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			require.Equal(t, from.dump(t), to.dump(t))
		})
	}
}

// TestTwoRestoresAtOnce checks that restores at once share the work, and that one finishes. A data
// directory admits one process.
func TestTwoRestoresAtOnce(t *testing.T) {
	t.Parallel()
	from := newSQLite(t)
	fill(t, from.service(t), 60)
	dir, _ := from.write(t, backup.Options{PartRows: 3})
	together := func(t *testing.T, to database) {
		t.Helper()
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			wg.Go(func() {
				r := to.restore(t)
				_, errs[i] = backup.Restore(t.Context(), dir, r, backup.Options{})
				require.NoError(t, r.Close())
			})
		}
		wg.Wait()
		finished := 0
		for _, err := range errs {
			if err == nil {
				finished++
			}
		}
		require.Equal(t, 1, finished, "%v", errs)
		require.Equal(t, from.dump(t), to.dump(t))
		require.NoError(t, to.service(t).Ping(t.Context()))
	}
	for _, name := range []string{"mysql", "galera"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			together(t, engines[name](t))
		})
	}
}

// TestBackupIsOfOneInstant backs up while others write. A timer comes in one transaction with its
// version and its fire, and an outcome replaces a fire.
func TestBackupIsOfOneInstant(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, fresh func(t *testing.T) database) {
		t.Helper()
		d := fresh(t)
		s := d.service(t)
		require.NoError(
			t,
			s.OpenSession(
				t.Context(),
				store.Session{ID: 7, Kind: store.ExecutorSession, Name: "executor"},
			),
		)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				writeSome(t, s, i)
			}
		})
		for range 6 {
			_, m := d.write(t, backup.Options{PartRows: 1000})
			n := map[string]int64{}
			for i := range m.Tables {
				n[m.Tables[i].Name] = m.Tables[i].Rows
			}
			require.Equal(t, n["timers"], n["timer_versions"], "%v", n)
			require.Equal(t, n["timers"], n["fires"]+n["outcomes"], "%v", n)
			require.GreaterOrEqual(t, time.Since(m.At), time.Duration(0))
		}
	})
}

// writeSome creates some timers, and records the fires of half of them.
func writeSome(t *testing.T, s *sqlstore.Store, i int) {
	t.Helper()
	fires := makeFires(t, s, fmt.Sprintf("w%d-", i), 20, time.Now().UnixMilli())
	won, err := s.Claim(background(t), 7, fires[:10])
	require.NoError(t, err)
	outcomes := make([]timer.Outcome, len(won))
	for i := range won {
		outcomes[i] = timer.Outcome{
			Fire: won[i], Kind: timer.Delivered, FinishedMS: time.Now().UnixMilli(),
			UntilMS: won[i].DueMS, Count: 1, Attempts: 1,
		}
	}
	lost, _, err := s.Record(background(t), 7, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
}

// TestRestoredStoreContinues checks what a restore changes: claims belong to nobody alive, numbers go
// on behind those of the backup, and old outcomes are purged when they expire.
func TestRestoredStoreContinues(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, fresh func(t *testing.T) database) {
		t.Helper()
		ctx := t.Context()
		from := newSQLite(t)
		s := from.service(t)
		fires, old := fill(t, s, 6)
		now := time.Now().UnixMilli()
		const day = 24 * 3600 * 1000
		for i, age := range []int64{40, 5} {
			_, _, err := s.Record(ctx, old, []timer.Outcome{{
				Fire: fires[i], Kind: timer.Delivered, FinishedMS: now - age*day,
				UntilMS: fires[i].DueMS, Count: 1, Attempts: 1,
			}}, nil)
			require.NoError(t, err)
		}
		by := store.WithActor(ctx, &store.Actor{Kind: "key", ID: "k"})
		require.NoError(t, s.AddAudit(by, "app", store.AuditEntry{Action: "test", Kind: "test"}))
		dir, _ := from.write(t, backup.Options{})

		to := fresh(t)
		to.load(t, dir)
		r := to.service(t)
		alive, err := r.LiveSessions(ctx)
		require.NoError(t, err)
		require.Empty(t, alive)
		ended, err := r.ExpiredSessions(ctx, time.Minute)
		require.NoError(t, err)
		require.Len(t, ended, 1, "executors look for its claims")
		require.NoError(
			t,
			r.OpenSession(ctx, store.Session{ID: 99, Kind: store.ExecutorSession, Name: "new"}),
		)
		later := slices.Clone(fires[2:])
		for i := range later {
			later[i].Rev += int32(i)
		}
		won, err := r.Claim(ctx, 99, later)
		require.NoError(t, err)
		require.Empty(t, won, "tasks of the lost bus may be of any revision")
		open, err := r.OpenAmong(ctx, idsOfFires(fires))
		require.NoError(t, err)
		won, err = r.Claim(ctx, 99, open)
		require.NoError(t, err)
		require.Len(t, won, 4, "those of the old session, and those of nobody")

		require.NoError(t, r.AddAudit(by, "app", store.AuditEntry{Action: "test", Kind: "test"}))
		page, err := r.AuditTrail(ctx, store.AuditQuery{App: "app", Limit: 10, ScanLimit: 10})
		require.NoError(t, err)
		require.Len(t, page.Entries, 2)
		require.Greater(t, page.Entries[0].Seq, page.Entries[1].Seq+1_000_000)

		require.NoError(t, r.PurgeExpired(ctx, 30*day*time.Millisecond))
		require.Len(t, to.dump(t)["outcomes"], 1)
	})
}

func idsOfFires(fires []timer.Fire) (ids []timer.FireID) {
	for i := range fires {
		ids = append(ids, fires[i].FireID)
	}
	return ids
}

// TestRestoreOfALaterSchema is refused, because its tables are not known.
func TestRestoreOfALaterSchema(t *testing.T) {
	t.Parallel()
	from := newSQLite(t)
	require.NoError(t, from.service(t).Ping(t.Context()))
	src := from.snapshot(t)
	dir := filepath.Join(t.TempDir(), "backup")
	_, err := backup.Write(t.Context(), laterSchema{src}, dir, backup.Options{Version: "v9"})
	require.NoError(t, err)
	require.NoError(t, src.Close())
	r := newSQLite(t).restore(t)
	_, err = backup.Restore(t.Context(), dir, r, backup.Options{})
	require.ErrorContains(t, err, "use the release that wrote it (v9), or a later one")
	require.NoError(t, r.Close())
}

type laterSchema struct{ backup.Source }

func (s laterSchema) Info(ctx context.Context) (backup.Info, error) {
	i, err := s.Source.Info(ctx)
	i.Schema = 900
	return i, err //nolint:wrapcheck // a test
}

// TestSnapshotsOfOthers checks what cannot be backed up.
func TestSnapshotsOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := sqlstore.SQLiteOptions{Dir: dir}
	_, err := sqlstore.SnapshotSQLite(t.Context(), o)
	require.ErrorIs(t, err, os.ErrNotExist)
	s, err := sqlstore.OpenSQLite(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = sqlstore.SnapshotSQLite(t.Context(), o)
	require.ErrorContains(t, err, "the database has no tables of Carillon")
	require.NoError(t, s.Migrate(t.Context()))
	_, err = s.Exec(
		t.Context(),
		"INSERT INTO goose_db_version (version_id,is_applied) VALUES (901,1)",
	)
	require.NoError(t, err)
	_, err = sqlstore.SnapshotSQLite(t.Context(), o)
	require.ErrorContains(t, err, "make the backup with the release that made that schema")
	_, err = s.Exec(
		t.Context(),
		"INSERT INTO goose_db_version (version_id,is_applied) VALUES (1000000000000,1)",
	)
	require.NoError(t, err)
	var restoring *sqlstore.RestoringError
	_, err = sqlstore.SnapshotSQLite(t.Context(), o)
	require.ErrorAs(t, err, &restoring)
}

// TestSnapshotKeepsPartitionsAway checks that a change of partitions does not wait for a snapshot,
// because each transaction would wait behind the change.
func TestSnapshotKeepsPartitionsAway(t *testing.T) {
	t.Parallel()
	d := newMySQL(t)
	s := d.service(t)
	snapshot := d.snapshot(t)
	defer func() { require.NoError(t, snapshot.Close()) }()
	_, err := snapshot.Tables(t.Context())
	require.NoError(t, err)
	makeFires(t, s, "t", 1, time.Now().UnixMilli())
	now := time.Now().UnixMilli()
	require.NoError(t, snapshot.ReadTable(t.Context(), "zone_replan", func([]any) error {
		return s.PurgePartitions(t.Context(), now, 0)
	}))
	require.Equal(t, 1, partitionsOf(t, s))
	_, err = s.Exec(t.Context(), "ALTER TABLE zone_replan ADD COLUMN test INT NOT NULL DEFAULT 0")
	require.NoError(t, err, "a migration does not wait for tables that were read")
	rows := 0
	require.NoError(t, snapshot.ReadTable(t.Context(), "timers", func([]any) error {
		rows++
		return nil
	}))
	require.Zero(t, rows, "the timer is later than the snapshot")
}

func partitionsOf(t *testing.T, s *sqlstore.Store) int {
	t.Helper()
	n, err := s.Number(t.Context(), "SELECT COUNT(*) FROM information_schema.PARTITIONS "+
		"WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='outcomes'")
	require.NoError(t, err)
	return n
}
