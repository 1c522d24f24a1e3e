package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
)

// How long data is kept that is no longer needed.
const (
	changeRetention = time.Hour
	endedRetention  = 24 * time.Hour // sessions, slices, minutes, idempotency keys
	purgeChunk      = 1000           // rows of one DELETE: keeps transactions and locks short
	purgeChunks     = 1000           // for one table in one call
)

// PurgeExpired deletes with short statements that each commit. Any number of calls may run at once,
// and a call may die halfway: the next one continues.
func (s *Store) PurgeExpired(ctx context.Context, retention time.Duration) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	nowMS := now.UnixMilli()
	cursor, _, err := s.readCursor(ctx)
	if err != nil {
		return err
	}
	dayAgo := nowMS - endedRetention.Milliseconds()
	minute := min(cursor, dayAgo/time.Minute.Milliseconds())
	changes, err := s.oldChanges(ctx, nowMS-changeRetention.Milliseconds())
	if err != nil {
		return err
	}
	return errors.Join(
		s.purgePartitions(ctx, nowMS, nowMS-retention.Milliseconds()),
		s.deleteAll(
			ctx,
			"failed_outcomes",
			"app_id,finished_ms,timer_id,due_ms,series",
			"finished_ms",
			stmt("finished_ms<").int(nowMS-retention.Milliseconds()),
		),
		s.deleteAll(
			ctx,
			"jobs",
			"id",
			"finished_ms",
			stmt("finished_ms>0 AND finished_ms<").int(nowMS-retention.Milliseconds()),
		),
		s.deleteAll(ctx, "timer_changes", "seq", "seq", stmt("seq<").int(changes)),
		s.deleteAll(
			ctx,
			"sessions",
			"id",
			"id",
			stmt(
				"ended_ms>0 AND ended_ms<",
			).int(dayAgo).
				add(" AND id>").
				int(int64(store.SystemSession)),
		),
		s.deleteAll(
			ctx,
			"inactivities",
			"timer_id,from_ms",
			"until_ms",
			stmt("until_ms<").int(nowMS-retention.Milliseconds()),
		),
		s.deleteAll(ctx, "slices", "minute,bucket", "minute,bucket", stmt("minute<").int(minute)),
		s.deleteAll(ctx, "minutes", "minute", "minute", stmt("minute<").int(minute)),
		s.deleteAll(ctx, "zone_holders", "id", "id", stmt("renewed_ms<").int(dayAgo)),
		s.deleteAll(
			ctx,
			"idempotency_keys",
			"app_id,idempotency_key",
			"created_ms",
			stmt("created_ms<").int(dayAgo),
		),
		s.deleteAll(
			ctx,
			"ended_sign_ins",
			"issuer,subject",
			"before_ms",
			stmt("before_ms<").int(dayAgo-store.MaxSignIn.Milliseconds()),
		),
	)
}

// oldChanges returns the first sequence of the change log to keep: the first recent entry, or the
// last one. The log therefore never looks new.
func (s *Store) oldChanges(ctx context.Context, boundMS int64) (seq int64, err error) {
	err = s.read(
		ctx,
		"reading the change log",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			err := s.selectOne(
				ctx,
				c,
				&seq,
				stmt("SELECT seq FROM timer_changes WHERE changed_ms>=").int(boundMS).
					add(" ORDER BY seq LIMIT 1"),
			)
			if errors.Is(err, sql.ErrNoRows) {
				return s.selectOne(
					ctx,
					c,
					&seq,
					stmt("SELECT COALESCE(MAX(seq),0) FROM timer_changes"),
				)
			}
			return err
		},
	)
	return seq, err
}

// deleteHistory deletes expired outcomes and attempts from the front of their primary keys.
func (s *Store) deleteHistory(ctx context.Context, _, boundMS int64) error {
	return errors.Join(
		s.deleteAll(
			ctx,
			"outcomes",
			"finished_ms,timer_id,due_ms,series",
			"finished_ms",
			stmt("finished_ms<").int(boundMS),
		),
		s.deleteAll(
			ctx,
			"attempts",
			"finished_ms,timer_id,due_ms,series,attempt,target",
			"finished_ms",
			stmt("finished_ms<").int(boundMS),
		),
	)
}

// deleteAll deletes matching rows in chunks, up to purgeChunks. The next call continues.
func (s *Store) deleteAll(ctx context.Context, table, key, order string, where *statement) error {
	for range purgeChunks {
		n, err := s.autocommit(ctx, "trimming "+table, func() *statement {
			return s.dialect.deleteUpTo(table, key, order, string(where.text), purgeChunk)
		})
		if err != nil || n < purgeChunk {
			return err
		}
	}
	return nil
}
