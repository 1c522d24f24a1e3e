package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// sequenceGap is how many numbers are left out behind those of the backup. Entries that were added
// after the backup have some of them: in the audit trail they are known outside.
const sequenceGap = 1_000_000

// Finish counts, and then lets services use the store in one transaction, which also ends the
// sessions of the backup: their processes are gone, so others recover their fires and publish their
// outcomes. It then runs the migrations that are later than the backup.
//
// Of two calls at once, the second finds that the restore has finished, and changes nothing. A call
// that dies before the commit changes only the next numbers, which a repeated one sets again. One
// that dies after it leaves an empty table, or an older schema, which services and the command setup
// migrate.
func (r *Restore) Finish(ctx context.Context, m *backup.Manifest) error {
	s := r.store
	for i := range m.Tables {
		if err := r.count(ctx, &m.Tables[i]); err != nil {
			return err
		}
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		if t.Next == 0 {
			continue
		}
		for _, q := range s.db.Dialect.SetNextNumber(t.Name, t.Next+sequenceGap) {
			_, err := s.db.Autocommit(
				ctx,
				"numbering table "+t.Name,
				func() *sqldb.Statement { return q },
			)
			if err != nil {
				return err
			}
		}
	}
	err := s.db.Write(
		ctx,
		"finishing the restore",
		func(ctx context.Context, c sqldb.Runner) error {
			if err := r.touch(ctx, c); err != nil {
				return err
			}
			if err := r.requireNoRows(ctx, c, tablesOfServices); err != nil {
				return err
			}
			for _, q := range []*sqldb.Statement{
				sqldb.Stmt("UPDATE sessions SET ended_ms=").NowMS(s.db.Dialect).Add(" WHERE ended_ms=0"),
				sqldb.Stmt("DELETE FROM goose_db_version WHERE version_id=").Int(restoringVersion),
				sqldb.Stmt("DELETE FROM " + restoreTable),
			} {
				if _, err := s.db.Exec(ctx, c, q); err != nil {
					return err
				}
			}
			return nil
		},
	)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // services may start by now
	_, err = s.db.Autocommit(ctx, "finishing the restore", func() *sqldb.Statement {
		return sqldb.Stmt("DROP TABLE IF EXISTS " + restoreTable)
	})
	if err = errors.Join(err, s.Migrate(ctx)); err != nil {
		return fmt.Errorf("%w: %w", backup.ErrNotMigrated, err)
	}
	return nil
}

// count compares the rows of a table with those of the backup.
func (r *Restore) count(ctx context.Context, t *backup.Parts) error {
	s := r.store
	var n int64
	err := s.db.Read(ctx, "counting restored rows",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectOne(ctx, c, &n, sqldb.Stmt("SELECT COUNT(*) FROM "+t.Name))
		})
	if err == nil && n != t.Rows {
		return fmt.Errorf(
			"table %s has %d rows after the restore, the backup %d: another process has written to the database; begin with an empty one",
			t.Name,
			n,
			t.Rows,
		)
	}
	return err
}
