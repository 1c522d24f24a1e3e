package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// checkLater refuses a database whose schema is later than this program's, and one into which a
// backup is being restored. It accepts later
// migrations that all say in schema_readers that programs of this schema may use them. Two adjacent
// releases can therefore share a schema, and a program never writes to a schema that it does not
// understand. It does not refuse a database without migrations, or one that does not answer: the
// next call finds that out.
func (s *Store) checkLater(ctx context.Context, c sqlx.QueryerContext) error {
	var latest int64
	err := s.db.SelectOne(
		ctx,
		c,
		&latest,
		sqldb.Stmt("SELECT COALESCE(MAX(version_id),0) FROM goose_db_version WHERE is_applied=1"),
	)
	if err != nil || latest <= schemaVersion {
		return nil //nolint:nilerr // as it says above
	}
	if latest == restoringVersion {
		return &RestoringError{}
	}
	var readerRows []struct {
		Version   int64 `db:"version"`
		MinReader int64 `db:"min_reader"`
	}
	err = s.db.SelectAll(
		ctx,
		c,
		&readerRows,
		sqldb.Stmt("SELECT version,min_reader FROM schema_readers WHERE version>").
			Int(schemaVersion),
	)
	if err != nil && s.db.Dialect.ClassOf(err) != engine.ClassOther && !isNoTable(err) {
		return nil
	}
	// empty if the table is missing: no migration allows us
	least := make(map[int64]int64, len(readerRows))
	for _, v := range readerRows {
		least[v.Version] = v.MinReader
	}
	var later []int64
	if err := s.db.SelectAll(
		ctx,
		c,
		&later,
		sqldb.Stmt(
			"SELECT DISTINCT version_id FROM goose_db_version WHERE is_applied=1 AND version_id>",
		).Int(schemaVersion),
	); err != nil {
		return nil //nolint:nilerr // as it says above
	}
	for _, v := range later {
		if reader, ok := least[v]; !ok || reader > schemaVersion {
			return &LaterSchemaError{Have: latest, Knows: schemaVersion}
		}
	}
	return nil
}

// isNoTable reports MySQL's error for a missing table. Elsewhere it counts as a table that is not
// migrated yet.
func isNoTable(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1146 //nolint:mnd // ER_NO_SUCH_TABLE
}

// LaterSchemaError means that only later programs may use the database. It never passes by itself.
type LaterSchemaError struct{ Have, Knows int64 }

func (e *LaterSchemaError) Error() string {
	return fmt.Sprintf(
		"the database's schema: expected version %d, or a later one that this program may use, found version %d: "+
			"run the release that made it or a later one, or restore the database from before the upgrade; "+
			"if another application made goose_db_version, give Carillon a database of its own",
		e.Knows,
		e.Have,
	)
}
