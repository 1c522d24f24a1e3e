package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/admin"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/calendars"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/fires"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/housekeeping"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/jobs"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/minutes"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/scheduling"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/search"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sessions"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store is the store on a database. It is safe for concurrent use.
type Store struct {
	*apps.Apps
	*audit.Audit
	*admin.Admin
	*jobs.JobStore
	*sessions.Sessions
	*minutes.Minutes
	*timers.Timers
	*calendars.CalendarStore
	*history.Reader
	*fires.Fires
	*search.Searcher
	*scheduling.Scheduling
	*housekeeping.Housekeeping

	db         *sqldb.DB
	sessions   *sessions.Rows
	partitions *housekeeping.Partitions

	scheduling   *scheduling.Settings
	searchLimits *search.Limits

	// migrate runs the missing migrations up to a version.
	migrate func(ctx context.Context, version int64) error
	// check verifies the server's settings, for Ping.
	check    func(ctx context.Context) error
	probe    sqlx.QueryerContext // of Ping, which then waits behind no other call
	warnOnce sync.Once           // for the warning about durability
	node     func() *mysqlengine.Node
}

var _ store.Store = (*Store)(nil)

func newStore(d *sqldb.Dialect, e engine.Engine, now func() time.Time, log zerolog.Logger) *Store {
	db := sqldb.New(d, e, log)
	appsOf, appRows := apps.New(db)
	auditOf, trail := audit.New(db, appRows)
	sessionsOf, sessionRows := sessions.New(db)
	minutesOf, cursors := minutes.New(db)
	timersOf, timerRows := timers.New(db, appRows)
	calendarsOf, zones := calendars.New(db, appRows, trail, timerRows)
	historyOf, historyRows := history.New(db, appRows, timerRows)
	firesOf, fireRows := fires.New(db, appRows, trail, timerRows, historyRows)
	housekeepingOf, partitions := housekeeping.New(db, cursors, timerRows)
	limits := search.DefaultLimits()
	settings := &scheduling.Settings{
		IDs: timer.NewIDs(now), MaxEditFires: DefaultMaxEditFires,
	}
	return &Store{
		Apps:          appsOf,
		Audit:         auditOf,
		Admin:         admin.New(db, appRows, trail),
		JobStore:      jobs.New(db, appRows, trail),
		Sessions:      sessionsOf,
		Minutes:       minutesOf,
		Timers:        timersOf,
		CalendarStore: calendarsOf,
		Reader:        historyOf,
		Fires:         firesOf,
		Searcher:      search.New(db, appRows, timerRows, historyRows, limits),
		Scheduling: scheduling.New(db, &scheduling.Nouns{
			Apps:    appRows,
			Audit:   trail,
			Timers:  timerRows,
			Zones:   zones,
			History: historyRows,
			Fires:   fireRows,
		}, settings),
		Housekeeping: housekeepingOf,
		db:           db,
		probe:        e.Reader(),
		sessions:     sessionRows,
		partitions:   partitions,
		scheduling:   settings,
		searchLimits: limits,
	}
}

// Now returns the store's clock, to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) { return s.db.Now(ctx) }

// Capabilities returns what the servers can do that the store was connected to.
func (s *Store) Capabilities() engine.Capabilities { return s.db.Capabilities() }

// Node returns which of several MySQL nodes the process uses, or nil if there is only one.
func (s *Store) Node() *mysqlengine.Node {
	if s.node == nil {
		return nil
	}
	return s.node()
}

// SetFaults changes the faults from now on; the zero value ends them. The random sequence of the
// first seed continues.
func (s *Store) SetFaults(set Faults) { s.db.SetFaults(set) }

// Ping checks that the database answers, has the settings that the store needs, and has this
// program's schema. A later schema is fine if it says that this program may use it: two adjacent
// releases run on one schema.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := s.db.Bounded(ctx)
	defer cancel()
	if s.check != nil {
		if err := s.check(ctx); err != nil {
			return s.db.Dialect.Translate("checking the database's settings", err)
		}
	}
	have, err := s.schemaVersion(ctx)
	class := s.db.Dialect.ClassOf(err)
	if err != nil && (class != engine.ClassOther || errors.Is(err, sql.ErrNoRows)) {
		return s.db.Dialect.Translate("reading the schema's version", err)
	}
	if err != nil || have < schemaVersion {
		return timer.Unavailable(
			"checking the schema",
			fmt.Errorf(
				"the database is at version %d, this program needs %d: run the migrations",
				have,
				schemaVersion,
			),
		)
	}
	if have > schemaVersion {
		return s.checkLater(ctx, s.probe)
	}
	return nil
}

// LastWriteError returns why the last write failed that the database could not do, such as one
// without room on the disk. After a minute it returns nil.
func (s *Store) LastWriteError() error { return s.db.LastWriteError() }

// Migrate brings the schema up to this program's version. Any number of processes may call it at
// once: one works, the others wait. If there is nothing to do, it takes no lock and needs no right to
// change the schema. It returns a *LaterSchemaError if the schema is later and this program may not
// use it, and a *RestoringError while a backup is being restored.
//
// A change of a large table takes long. If ctx ends meanwhile, or after an hour, the server goes on
// with it, without the lock: give ctx a deadline only where that is meant. A process that has waited
// for some minutes for another's migrations fails with unavailable.
func (s *Store) Migrate(ctx context.Context) error {
	migrated, err := s.isMigrated(ctx)
	if err != nil || migrated {
		return err
	}
	err = s.migrate(ctx, schemaVersion)
	switch {
	case errors.Is(err, mysqlengine.ErrLockTaken):
		return timer.Unavailable("waiting for the migrations of another process", err)
	case err != nil:
		return s.db.Dialect.Translate("migrating the schema", err)
	}
	return nil
}

// isMigrated reports whether no migration is missing. It refuses what Migrate refuses. It takes what
// it cannot find out for a missing migration: the next call finds out why.
func (s *Store) isMigrated(ctx context.Context) (bool, error) {
	ctx, cancel := s.db.Bounded(ctx)
	defer cancel()
	c := s.db.Engine.Reader()
	if err := s.checkLater(ctx, c); err != nil {
		return false, err
	}
	have, err := s.schemaVersion(ctx)
	if err != nil || have < schemaVersion {
		return false, nil
	}
	if err := requireOwnTables(ctx, c, s.db.Dialect, schemaVersion, true); err != nil {
		return false, s.db.Dialect.Translate("migrating the schema", err)
	}
	return true, nil
}

// schemaVersion returns the number of the latest migration that ran, or 0.
func (s *Store) schemaVersion(ctx context.Context) (int64, error) {
	var have sql.NullInt64
	err := s.db.SelectOne(
		ctx,
		s.probe,
		&have,
		sqldb.Stmt("SELECT MAX(version_id) FROM goose_db_version WHERE is_applied=1"),
	)
	return have.Int64, err
}

// Close ends all connections. Running calls finish or fail with unavailable.
func (s *Store) Close() error { return s.db.Engine.Close() }
