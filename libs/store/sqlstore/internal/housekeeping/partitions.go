package housekeeping

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
)

const (
	dayMS = 24 * 60 * 60 * 1000
	// daysAhead is how many coming days have partitions. PurgeExpired may fail for that long
	// without harm. Later it copies the rows since, and the server takes no others meanwhile, 9 s for a
	// million rows. An empty partition costs a lookup in each search that names no day, some microseconds.
	daysAhead = 14
	// daysBehind is how many past days get partitions if PurgeExpired did not run for long.
	daysBehind = 30
	// daysRestored is the largest number of past days that get partitions in a new table.
	daysRestored = 400
	// ddlWaitS is how many seconds a change of partitions waits for transactions that use the
	// table. Later transactions wait behind it.
	ddlWaitS = 2
	// mostPostponed is for how many days changes of partitions may fail before PurgeExpired says so.
	mostPostponed = 2
)

// PartitionedTables have partitions by the day of finished_ms.
var PartitionedTables = []string{"outcomes", "attempts"}

// AddPastDays creates the partitions of a table that has none yet, for rows from an instant on. So
// rows that are restored are purged as if they had been recorded here. A repeated call changes
// nothing.
func (s *Partitions) AddPastDays(
	ctx context.Context, e *mysqlengine.Engine, table string, oldestMS int64,
) error {
	ctx, cancel := s.db.Bounded(ctx)
	defer cancel()
	err := func() error {
		conn, err := e.DB().Connx(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // returns it to the pool
		parts, err := s.partitions(ctx, conn, table)
		if err != nil || len(parts) > 1 {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, conn)
		if err != nil {
			return err
		}
		_, err = s.addDays(ctx, conn, table, parts, nowMS, oldestMS)
		if errors.Is(err, errOvertaken) {
			err = nil // the other call adds them
		}
		return err
	}()
	return s.db.Dialect.Translate("adding partitions of past days", err)
}

// partition is a partition of a table. belowMS is 0 for pmax.
type partition struct {
	name    string
	belowMS int64
}

// maintainPartitions creates the partitions of the coming days and drops those that lie wholly
// before the bound. Of several calls at once, one works under a named lock and the others return.
// Where there are no named locks, all work: each change names its partitions, so the server refuses
// one that another call has made. A change that waits too long for the table is left to the next
// call.
func (s *Partitions) maintainPartitions(
	ctx context.Context,
	e *mysqlengine.Engine,
	nowMS, boundMS int64,
) error {
	ctx, cancel := s.db.Bounded(ctx)
	defer cancel()
	conn, err := e.DB().Connx(ctx)
	if err != nil {
		return s.db.Dialect.Translate("maintaining partitions", err)
	}
	defer conn.Close() // returns it to the pool
	if !e.Capabilities().NamedLocks {
		err := s.maintainLocked(ctx, conn, nowMS, boundMS)
		return s.db.Dialect.Translate("maintaining partitions", err)
	}
	err = mysqlengine.PurgeLock.Take(ctx, conn.Conn, 0)
	if errors.Is(err, mysqlengine.ErrLockTaken) {
		return nil
	}
	if err != nil {
		return s.db.Dialect.Translate("maintaining partitions", err)
	}
	err = s.maintainLocked(ctx, conn, nowMS, boundMS)
	return s.db.Dialect.Translate(
		"maintaining partitions",
		errors.Join(err, mysqlengine.PurgeLock.Release(ctx, conn.Conn)),
	)
}

func (s *Partitions) maintainLocked(
	ctx context.Context,
	conn *sqlx.Conn,
	nowMS, boundMS int64,
) error {
	if _, err := s.db.Exec(
		ctx,
		conn,
		sqldb.Stmt("SET SESSION lock_wait_timeout=").Int(ddlWaitS),
	); err != nil {
		return err
	}
	// The connection returns to the pool with its old settings.
	//nolint:errcheck // best effort
	defer s.db.Exec(
		context.WithoutCancel(ctx),
		conn,
		sqldb.Stmt("SET SESSION lock_wait_timeout=DEFAULT"),
	)
	for _, table := range PartitionedTables {
		err := s.maintainTable(ctx, conn, table, nowMS, boundMS)
		if err != nil && !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return nil
}

// errOvertaken means that another call changes the partitions of a table, and does what is left.
var errOvertaken = errors.New("the partitions are changed by another process")

func (s *Partitions) maintainTable(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
	nowMS, boundMS int64,
) error {
	parts, err := s.partitions(ctx, conn, table)
	if err != nil {
		return err
	}
	added, err := s.addDays(ctx, conn, table, parts, nowMS, nowMS)
	if err != nil {
		return err
	}
	if table == "attempts" {
		boundMS = attemptBound(nowMS, boundMS)
	}
	dropped := false
	if added { // otherwise the table is in use: each change would hold up others for ddlWaitS
		if dropped, err = s.dropDays(ctx, conn, table, parts, boundMS); err != nil {
			return err
		}
	}
	if dropped {
		return nil
	}
	return overdue(table, parts, nowMS, boundMS)
}

// overdue returns an error if no change of a table's partitions has succeeded for days, because each
// has waited too long for the table or was interrupted. Otherwise nothing would tell that history is
// not dropped and that coming days get no partitions. parts are those before the changes.
func overdue(table string, parts []partition, nowMS, boundMS int64) error {
	ahead, behind := int64(0), int64(0) // days
	for _, p := range parts {
		if p.belowMS > 0 {
			ahead = max(ahead, (p.belowMS-nowMS)/dayMS)
			behind = max(behind, (boundMS-p.belowMS)/dayMS)
		}
	}
	if ahead >= daysAhead-mostPostponed && behind < mostPostponed {
		return nil
	}
	return fmt.Errorf(
		"the partitions of %s could not be changed: %d days ahead have one, and the oldest ended %d "+
			"days before the retention; a transaction has the table open whenever this is tried: "+
			"SHOW PROCESSLIST shows it",
		table,
		ahead,
		behind,
	)
}

func (s *Partitions) partitions(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
) ([]partition, error) {
	var rows []struct {
		Name  sql.NullString `db:"name"`
		Below sql.NullString `db:"below"`
	}
	err := s.db.SelectAll(
		ctx,
		conn,
		&rows,
		sqldb.Stmt("SELECT PARTITION_NAME AS name,PARTITION_DESCRIPTION AS below FROM "+
			"information_schema.PARTITIONS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME=").Bind(table).
			Add(" ORDER BY PARTITION_ORDINAL_POSITION"),
	)
	if err != nil {
		return nil, err
	}
	var out []partition
	for _, r := range rows {
		p := partition{name: r.Name.String}
		if r.Below.String != "MAXVALUE" {
			if p.belowMS, err = strconv.ParseInt(r.Below.String, 10, 64); err != nil {
				return nil, fmt.Errorf("partition %s of %s is not by day: %w", p.name, table, err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// addDays creates partitions for days without one, up to daysAhead, by splitting pmax. Rows in pmax
// of these days move, but most often there are none. A new table begins with the day of oldestMS,
// and older rows go to that day. It returns false if the change was left to the next call.
func (s *Partitions) addDays(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
	parts []partition,
	nowMS, oldestMS int64,
) (bool, error) {
	today := nowMS / dayMS
	next := today - daysBehind // first day without a partition
	for _, p := range parts {
		next = max(next, p.belowMS/dayMS)
	}
	if len(parts) == 1 {
		next = min(today, max(oldestMS/dayMS, today-daysRestored))
	}
	if next > today+daysAhead {
		return true, nil
	}
	q := sqldb.Stmt("ALTER TABLE " + table + " REORGANIZE PARTITION pmax INTO (")
	for day := next; day <= today+daysAhead; day++ {
		q.Add("PARTITION p" + time.UnixMilli(day*dayMS).UTC().Format("20060102") + " VALUES LESS THAN (").
			Int((day + 1) * dayMS).
			Add("),")
	}
	_, err := s.db.Exec(ctx, conn, q.Add("PARTITION pmax VALUES LESS THAN MAXVALUE)"))
	return s.ignoreOvertaken(err)
}

// dropDays drops partitions that lie wholly before the bound. An outcome is thus dropped at most a
// day late. It returns false once it leaves a change to the next call, with all that follow.
func (s *Partitions) dropDays(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
	parts []partition,
	boundMS int64,
) (bool, error) {
	for _, p := range parts {
		if p.belowMS == 0 || p.belowMS > boundMS {
			continue
		}
		_, err := s.db.Exec(ctx, conn, sqldb.Stmt("ALTER TABLE "+table+" DROP PARTITION "+p.name))
		if dropped, err := s.ignoreOvertaken(err); !dropped {
			return false, err
		}
	}
	return true, nil
}

// ignoreOvertaken ignores a change that waited too long for the table, which the next call makes. Then
// it returns false. One that another call has made, or has interrupted, is errOvertaken.
func (s *Partitions) ignoreOvertaken(err error) (made bool, _ error) {
	if mysqlengine.IsPartitionChanged(err) {
		s.db.Log.Info().Err(err).Msg("partitions were changed by another process, or interrupted")
		return false, errOvertaken
	}
	if s.db.Dialect.ClassOf(err) == engine.ClassRepeat {
		s.db.Log.Info().Err(err).Msg("partition change postponed")
		return false, nil
	}
	return err == nil, err
}
