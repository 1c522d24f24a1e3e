package sqldb

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
	GuardMetered = 0  // the limit of timers with metrics
	GuardZones   = -1 // the rules of time zones
)

// Guard writes the whole guard of an app.
func (s *DB) Guard(ctx context.Context, c Runner, id int64) error {
	if s.Engine.Capabilities().RowLocks {
		return nil
	}
	q := s.writeGuards()
	for stripe := range int64(guardStripes) {
		q.Row(stripe == 0, id, stripe, 1)
	}
	return s.endGuards(ctx, c, q)
}

// GuardShared writes a part of the guards of apps.
func (s *DB) GuardShared(ctx context.Context, c Runner, ids []int64) error {
	if len(ids) == 0 || s.Engine.Capabilities().RowLocks {
		return nil
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	q := s.writeGuards()
	for i, id := range slices.Compact(ids) {
		q.Row(i == 0, id, rand.Int64N(guardStripes), 1)
	}
	return s.endGuards(ctx, c, q)
}

func (s *DB) writeGuards() *Statement {
	return Stmt("INSERT INTO app_guards (app_id,stripe,writes) VALUES ")
}

func (s *DB) endGuards(ctx context.Context, c Runner, q *Statement) error {
	q.Add(s.Dialect.OnConflictUpdate("app_id,stripe") + "writes=app_guards.writes+1")
	_, err := s.Exec(ctx, c, q)
	return err
}

// GuardTimers writes the guards of timers whose rows are locked. ids must not be empty.
func (s *DB) GuardTimers(ctx context.Context, c Runner, ids []timer.ID) error {
	if s.Engine.Capabilities().RowLocks {
		return nil
	}
	_, err := s.Exec(ctx, c, Stmt(
		"UPDATE timers"+s.Dialect.ByPrimary+" SET guard=guard+1 WHERE id",
	).IDList(ids))
	return err
}

// SkipLocked locks the rows that a SELECT reads, and skips those that others have locked if the
// server can. If it cannot, or if the others are on another node, two calls may choose the same
// rows. Both write them, so the second one is repeated and finds other rows.
func (s *DB) SkipLocked() string {
	if s.Engine.Capabilities().SkipLocked {
		return s.Dialect.skipLocked
	}
	return s.Dialect.ForUpdate
}

// Capabilities returns what the servers can do that the store was connected to.
func (s *DB) Capabilities() engine.Capabilities { return s.Engine.Capabilities() }
