package scheduling

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// schedulesOf are the columns that say when a migrator looks at a timer next, and its table's key.
// only is a condition that the table's index has, where the key has none.
type schedulesOf struct{ table, key, at, only string }

var (
	ofTimers    = schedulesOf{table: "timers", key: "id", at: "expand_at_ms"}
	ofReplans   = schedulesOf{table: "replans", key: "timer_id", at: "next_page_ms"}
	ofBackfills = schedulesOf{
		table: "backfills", key: "timer_id", at: "expand_at_ms",
		only: " AND status=" + strconv.Itoa(rowBackfillRunning),
	}
)

// readable is a planner that plans no timer which cannot be read.
func readable(plan store.Planner) store.Planner {
	return func(t *timer.Timer, nowMS int64) store.Plan {
		if why := t.Definition.Unreadable; why != "" {
			return store.Plan{Err: errors.New(why)}
		}
		return plan(t, nowMS)
	}
}

// withoutUnreadable does a transaction for the timers that are due. One that cannot be read would fail
// it for all others, each time: such timers are postponed like those whose plan fails, and the
// transaction is repeated without them. A migrator of a newer release may read them. Each repetition
// postpones at least one, so they end. If a process dies before a repetition, the next call finds the
// same.
func (s *Scheduling) withoutUnreadable(
	ctx context.Context,
	of schedulesOf,
	delay time.Duration,
	transaction func() error,
) error {
	for {
		err := transaction()
		bad, ok := errors.AsType[*timers.UnreadableError](err)
		if !ok {
			return err
		}
		n, err := s.db.Autocommit(ctx, "postponing timers", func() *sqldb.Statement {
			return sqldb.Stmt("UPDATE " + of.table + " SET " + of.at + "=").NowMS(s.db.Dialect).
				Add("+").Int(delay.Milliseconds()).
				Add(" WHERE " + of.key).IDList(bad.Timers).
				Add(" AND " + of.at + "<=").NowMS(s.db.Dialect).
				Add(of.only)
		})
		// If there are none, another call has postponed them, and the next one finds the others.
		if err != nil || n == 0 {
			return err
		}
		for i, id := range bad.Timers {
			s.db.Log.Warn().
				Err(bad.Errs[i]).
				Int64("timer", int64(id)).
				Str("postponed", of.table).
				Msg("timer cannot be read")
		}
	}
}
