package scheduling

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
)

// schedulesOf are the columns that say when a migrator looks at a timer next, and its table's key.
type schedulesOf struct{ table, key, at string }

var (
	ofTimers    = schedulesOf{"timers", "id", "expand_at_ms"}
	ofReplans   = schedulesOf{"replans", "timer_id", "next_page_ms"}
	ofBackfills = schedulesOf{"backfills", "timer_id", "expand_at_ms"}
)

// withoutUnreadable does a transaction for the timers that are due. One whose definition cannot be
// read would fail it for all others, each time: such timers are postponed like those whose plan fails,
// and the transaction is repeated without them. A migrator of a newer release may read them. Each
// repetition postpones at least one, so they end. If a process dies before a repetition, the next call
// finds the same.
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
		s.db.Log.Warn().Err(bad).Int("timers", len(bad.Timers)).
			Msg("definitions not readable: no new fires of their timers")
		n, err := s.db.Autocommit(ctx, "postponing timers", func() *sqldb.Statement {
			return sqldb.Stmt("UPDATE " + of.table + " SET " + of.at + "=").NowMS(s.db.Dialect).
				Add("+").Int(delay.Milliseconds()).
				Add(" WHERE " + of.key).IDList(bad.Timers).
				Add(" AND " + of.at + "<=").NowMS(s.db.Dialect)
		})
		if err != nil ||
			n == 0 { // another call has postponed them, and the next one finds the others
			return err
		}
	}
}
