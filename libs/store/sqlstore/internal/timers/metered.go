package timers

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// metered is the attribute of timers with metrics. It belongs to no app, so that one short range of
// the primary key has those of all apps. The row of timer 0 is the lock, see MeteredRoom.
func metered(id timer.ID) Attribute { return Attribute{Kind: kindMetered, timer: id} }

// MeteredRoom returns how many more timers may get metrics. It returns the whole bound if the
// transaction wants none, and reads nothing.
//
// Two at once: the insert locks the row of timer 0 until the end of the transaction, also where it
// is there. So the second counts after the first has committed, and the bound is exact. On a
// cluster that certifies commits (Galera), where nodes do not see each other's locks, the guard
// lets only one of them commit.
//
// Only writes that turn metrics on wait for each other. Rejected: a count without a lock, which
// transactions in flight exceed on every database.
func (s *Rows) MeteredRoom(ctx context.Context, c sqldb.Runner, wanted bool) (int, error) {
	if !wanted {
		return store.MaxMeteredTimers, nil
	}
	if err := s.InsertAttributes(ctx, c, []Attribute{metered(0)}); err != nil {
		return 0, err
	}
	if err := s.db.Guard(ctx, c, sqldb.GuardMetered); err != nil {
		return 0, err
	}
	var n int
	of := metered(0)
	q := WithAttribute(sqldb.Stmt("SELECT COUNT(*) FROM timer_attributes WHERE "), &of).
		Add(" AND timer_id>0")
	err := s.db.SelectOne(ctx, c, &n, q)
	return store.MaxMeteredTimers - n, err
}

// TakeMetered takes one of the room if a definition turns metrics on, or refuses it.
func TakeMetered(room *int, had, wants bool) error {
	if had || !wants {
		return nil
	}
	if *room <= 0 {
		return store.TooManyMetered()
	}
	*room--
	return nil
}
