package housekeeping

import (
	"context"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// How long data is kept that is no longer needed.
const (
	changeRetention = time.Hour
	endedRetention  = 24 * time.Hour // sessions, slices, minutes, idempotency keys
)

// PurgeExpired deletes with short statements that each commit. Any number of calls may run at once,
// and a call may die halfway: the next one continues.
func (s *Housekeeping) PurgeExpired(ctx context.Context, retention time.Duration) error {
	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}
	nowMS := now.UnixMilli()
	cursor, _, err := s.cursors.Read(ctx)
	if err != nil {
		return err
	}
	boundMS := nowMS - retention.Milliseconds()
	oldest, err := s.oldestDue(ctx)
	if err != nil {
		return err
	}
	if err := s.setPurged(ctx, nowMS, boundMS); err != nil {
		return err
	}
	dayAgo := nowMS - endedRetention.Milliseconds()
	minute := min(cursor, dayAgo/time.Minute.Milliseconds())
	return errors.Join(
		s.partitions.Purge(ctx, nowMS, boundMS),
		s.db.DeleteAll(
			ctx,
			"failed_outcomes",
			"app_id,finished_ms,timer_id,due_ms,series",
			"finished_ms",
			sqldb.Stmt("finished_ms<").Int(boundMS),
		),
		s.db.DeleteAll(
			ctx,
			"jobs",
			"id",
			"finished_ms",
			sqldb.Stmt("finished_ms>0 AND finished_ms<").Int(boundMS),
		),
		s.db.DeleteAll(
			ctx,
			"backfills",
			"id",
			"id",
			// Their fires were due before to_ms. A subquery of fires would lock all that it reads.
			sqldb.Stmt("status<>0 AND created_ms<").Int(boundMS).Add(" AND to_ms<=").Int(oldest),
		),
		// The last of the old entries stays, see S4. The log never looks new, either.
		s.db.DeleteOld(ctx, "timer_changes", nowMS, nowMS-changeRetention.Milliseconds(), true),
		s.db.DeleteAll(
			ctx,
			"sessions",
			"id",
			"id",
			sqldb.Stmt(
				"ended_ms>0 AND ended_ms<",
			).Int(dayAgo).
				Add(" AND id>").
				Int(int64(store.SystemSession)),
		),
		s.db.DeleteAll(
			ctx,
			"inactivities",
			"timer_id,from_ms",
			"until_ms",
			sqldb.Stmt("until_ms<").Int(min(boundMS, oldest)), // open fires may lie in later ones
		),
		s.db.DeleteAll(
			ctx,
			"slices",
			"minute,bucket",
			"minute,bucket",
			sqldb.Stmt("minute<").Int(minute),
		),
		s.db.DeleteAll(ctx, "minutes", "minute", "minute", sqldb.Stmt("minute<").Int(minute)),
		s.db.DeleteAll(ctx, "processes", "id", "id", sqldb.Stmt("renewed_ms<").Int(dayAgo)),
		s.db.DeleteAll(
			ctx,
			"idempotency_keys",
			"app_id,idempotency_key",
			"created_ms",
			sqldb.Stmt("created_ms<").Int(dayAgo),
		),
		s.db.DeleteAll(
			ctx,
			"ended_sign_ins",
			"issuer,subject",
			"before_ms",
			sqldb.Stmt("before_ms<").Int(dayAgo-store.MaxSignIn.Milliseconds()),
		),
	)
}

// oldestDue returns the first due instant of all open fires, timer.NeverMS if there is none.
func (s *Housekeeping) oldestDue(ctx context.Context) (dueMS int64, err error) {
	err = s.db.Read(
		ctx,
		"reading the oldest fire",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectOne(ctx, c, &dueMS,
				sqldb.Stmt("SELECT COALESCE(MIN(due_ms),").Int(timer.NeverMS).Add(") FROM fires"))
		},
	)
	return dueMS, err
}

// Purge removes outcomes that finished before the bound, and attempts that did so, or
// store.AttemptRetention ago if that is longer.
func (s *Partitions) Purge(ctx context.Context, nowMS, boundMS int64) error {
	if s.MySQL == nil {
		return s.deleteHistory(ctx, nowMS, boundMS)
	}
	return s.maintainPartitions(ctx, s.MySQL, nowMS, boundMS)
}

// deleteHistory deletes expired outcomes and attempts from the front of their primary keys.
func (s *Partitions) deleteHistory(ctx context.Context, nowMS, boundMS int64) error {
	return errors.Join(
		s.db.DeleteAll(
			ctx,
			"outcomes",
			"finished_ms,timer_id,due_ms,series",
			"finished_ms",
			sqldb.Stmt("finished_ms<").Int(boundMS),
		),
		s.db.DeleteAll(
			ctx,
			"attempts",
			"finished_ms,timer_id,due_ms,series,attempt,target",
			"finished_ms",
			sqldb.Stmt("finished_ms<").Int(attemptBound(nowMS, boundMS)),
		),
	)
}

// attemptBound returns before which instant attempts are removed.
func attemptBound(nowMS, boundMS int64) int64 {
	return min(boundMS, nowMS-store.AttemptRetention.Milliseconds())
}
