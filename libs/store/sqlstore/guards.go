package sqlstore

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Guards replace row locks on servers whose nodes do not share them (engine.Capabilities). There, a
// lock on a row keeps out only the transactions of one node. Of two transactions that write one row
// on two nodes, the commit of the second is refused, and attempt repeats it. So a transaction that
// relies on a lock also writes a guard:
//
//   - the lock on a timer's row: the column guard of that row;
//   - the lock on an app's row or on a calendar: all guardStripes rows of the app in app_guards;
//   - a lock for sharing on these: one of those rows, chosen at random. Two that share therefore
//     seldom conflict, and one that shares always conflicts with one that locks.
//
// A lock on a row that the transaction writes or deletes anyway needs no guard. This is so for
// fires, slices, jobs, backfills and outcomes.
//
// The lock itself stays: on one node it makes others wait, which costs less than a repetition. And
// it ends a transaction at once when another node's commit writes the row.

// guardStripes is how many rows the guard of an app has.
const guardStripes = 16

// Guards that belong to no app.
const (
	guardMetered = 0  // the limit of timers with metrics
	guardZones   = -1 // the rules of time zones
)

// guard writes the whole guard of an app.
func (s *Store) guard(ctx context.Context, c runner, id int64) error {
	if s.engine.Capabilities().RowLocks {
		return nil
	}
	q := s.writeGuards()
	for stripe := range int64(guardStripes) {
		q.row(stripe == 0, id, stripe, 1)
	}
	return s.endGuards(ctx, c, q)
}

// guardShared writes a part of the guards of apps.
func (s *Store) guardShared(ctx context.Context, c runner, ids []int64) error {
	if len(ids) == 0 || s.engine.Capabilities().RowLocks {
		return nil
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	q := s.writeGuards()
	for i, id := range slices.Compact(ids) {
		q.row(i == 0, id, rand.Int64N(guardStripes), 1)
	}
	return s.endGuards(ctx, c, q)
}

func (s *Store) writeGuards() *statement {
	return stmt("INSERT INTO app_guards (app_id,stripe,writes) VALUES ")
}

func (s *Store) endGuards(ctx context.Context, c runner, q *statement) error {
	q.add(s.dialect.onConflictUpdate("app_id,stripe") + "writes=app_guards.writes+1")
	_, err := s.exec(ctx, c, q)
	return err
}

// guardTimers writes the guards of timers whose rows are locked. ids must not be empty.
func (s *Store) guardTimers(ctx context.Context, c runner, ids []timer.ID) error {
	if s.engine.Capabilities().RowLocks {
		return nil
	}
	_, err := s.exec(ctx, c, stmt(
		"UPDATE timers"+s.dialect.byPrimary+" SET guard=guard+1 WHERE id",
	).idList(ids))
	return err
}

// skipLocked locks the rows that a SELECT reads, and skips those that others have locked if the
// server can. If it cannot, or if the others are on another node, two calls may choose the same
// rows. Both write them, so the second one is repeated and finds other rows.
func (s *Store) skipLocked() string {
	if s.engine.Capabilities().SkipLocked {
		return s.dialect.skipLocked
	}
	return s.dialect.forUpdate
}

// Capabilities returns what the servers can do that the store was connected to.
func (s *Store) Capabilities() engine.Capabilities { return s.engine.Capabilities() }
