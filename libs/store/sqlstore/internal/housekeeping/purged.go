package housekeeping

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// purgedCursor is the row of cursors with the instant before which outcomes were removed, in ms.
const purgedCursor = "purged"

// PurgedBefore reads the instant that PurgeExpired wrote before it removed anything.
func (s *Housekeeping) PurgedBefore(ctx context.Context) (ms int64, err error) {
	err = s.db.Read(
		ctx,
		"reading how far outcomes are purged",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			err := s.db.SelectOne(
				ctx, c, &ms,
				sqldb.Stmt("SELECT minute FROM cursors WHERE name=").Bind(purgedCursor),
			)
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		},
	)
	return ms, err
}

// setPurged says that outcomes which finished before an instant may be gone. It never moves back,
// whatever the retention: what was removed stays so. But an instant later than now, by a clock that
// was ahead, becomes now. Each statement may be repeated, by any number of processes.
func (s *Housekeeping) setPurged(ctx context.Context, nowMS, boundMS int64) error {
	set := func(toMS int64, compare string) error {
		_, err := s.db.Autocommit(
			ctx,
			"noting how far outcomes are purged",
			func() *sqldb.Statement {
				return sqldb.Stmt("UPDATE cursors SET minute=").Int(toMS).
					Add(" WHERE name=").Bind(purgedCursor).
					Add(" AND minute" + compare).Int(toMS)
			},
		)
		return err
	}
	_, err := s.db.Autocommit(ctx, "noting how far outcomes are purged", func() *sqldb.Statement {
		return sqldb.Stmt("INSERT INTO cursors (name,minute) VALUES (").Bind(purgedCursor).
			Add(",").Int(boundMS).Add(")").
			Add(s.db.Dialect.OnConflictNothing("name"))
	})
	if err != nil {
		return err
	}
	if err := set(boundMS, "<"); err != nil {
		return err
	}
	return set(nowMS, ">")
}
