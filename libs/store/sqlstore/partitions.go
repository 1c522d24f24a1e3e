package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	dayMS = 24 * 60 * 60 * 1000
	// daysAhead is how many days have partitions before they begin; a Keep that fails for so long
	// does no harm.
	daysAhead = 3
	// daysBehind is how far back days are cut off pmax where Keep was not called for long.
	daysBehind = 30
	// ddlWaitS is how many seconds a change of partitions waits for transactions that use the
	// table. While it waits, others wait behind it.
	ddlWaitS = 2
)

// partition is one of a table's. belowMS is 0 for pmax.
type partition struct {
	name    string
	belowMS int64
}

// trimPartitions makes the partitions of the coming days and drops those wholly before the bound.
// Several at once: one works under a lock of the server's, the others leave it to that one. A
// change that cannot have the table in time is left to the next call.
func (s *Store) trimPartitions(ctx context.Context, db *sqlx.DB, nowMS, boundMS int64) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	conn, err := db.Connx(ctx)
	if err != nil {
		return s.dialect.translate("keeping partitions", err)
	}
	defer conn.Close() // gives it back to the pool
	if err := purgeLock.take(ctx, conn.Conn, 0); errors.Is(err, errLockTaken) {
		return nil
	} else if err != nil {
		return s.dialect.translate("keeping partitions", err)
	}
	err = s.trimUnderLock(ctx, conn, nowMS, boundMS)
	return s.dialect.translate(
		"keeping partitions",
		errors.Join(err, purgeLock.release(ctx, conn.Conn)),
	)
}

func (s *Store) trimUnderLock(ctx context.Context, conn *sqlx.Conn, nowMS, boundMS int64) error {
	if _, err := s.exec(
		ctx,
		conn,
		stmt("SET SESSION lock_wait_timeout=").int(ddlWaitS),
	); err != nil {
		return err
	}
	// The connection goes back to the pool as it was.
	//nolint:errcheck // best effort
	defer s.exec(context.WithoutCancel(ctx), conn, stmt("SET SESSION lock_wait_timeout=DEFAULT"))
	for _, table := range []string{"outcomes", "attempts"} {
		parts, err := s.partitions(ctx, conn, table)
		if err != nil {
			return err
		}
		if err := s.addDays(ctx, conn, table, parts, nowMS); err != nil {
			return err
		}
		if err := s.dropDays(ctx, conn, table, parts, boundMS); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) partitions(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
) ([]partition, error) {
	var rows []struct {
		Name  sql.NullString `db:"name"`
		Below sql.NullString `db:"below"`
	}
	err := s.selectAll(
		ctx,
		conn,
		&rows,
		stmt("SELECT PARTITION_NAME AS name,PARTITION_DESCRIPTION AS below FROM "+
			"information_schema.PARTITIONS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME=").bind(table).
			add(" ORDER BY PARTITION_ORDINAL_POSITION"),
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

// addDays cuts the days off pmax that have no partition yet, up to daysAhead. What pmax has of them
// moves; most often it is empty.
func (s *Store) addDays(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
	parts []partition,
	nowMS int64,
) error {
	today := nowMS / dayMS
	next := today - daysBehind // the first day that has none
	for _, p := range parts {
		next = max(next, p.belowMS/dayMS)
	}
	if len(parts) == 1 {
		next = today // in a new table: all that is older goes with today's
	}
	if next > today+daysAhead {
		return nil
	}
	q := stmt("ALTER TABLE " + table + " REORGANIZE PARTITION pmax INTO (")
	for day := next; day <= today+daysAhead; day++ {
		q.add("PARTITION p" + time.UnixMilli(day*dayMS).UTC().Format("20060102") + " VALUES LESS THAN (").
			int((day + 1) * dayMS).
			add("),")
	}
	_, err := s.exec(ctx, conn, q.add("PARTITION pmax VALUES LESS THAN MAXVALUE)"))
	return s.patiently(err)
}

// dropDays drops what lies wholly before the bound: an outcome goes at the latest a day after it.
func (s *Store) dropDays(
	ctx context.Context,
	conn *sqlx.Conn,
	table string,
	parts []partition,
	boundMS int64,
) error {
	for _, p := range parts {
		if p.belowMS == 0 || p.belowMS > boundMS {
			continue
		}
		_, err := s.exec(ctx, conn, stmt("ALTER TABLE "+table+" DROP PARTITION "+p.name))
		if err := s.patiently(err); err != nil {
			return err
		}
	}
	return nil
}

// patiently passes by a change that did not get the table in time: nothing is lost by doing it
// later.
func (s *Store) patiently(err error) error {
	if s.dialect.classOf(err) == classRepeat {
		s.log.Info().Err(err).Msg("partitions left to the next call")
		return nil
	}
	return err
}
