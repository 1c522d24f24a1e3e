package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/backup"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/housekeeping"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// maxInsertBytes is where an INSERT ends. Servers refuse statements of several MB.
const maxInsertBytes = 1 << 20

// revisionGap is added to the revisions of open fires. The lost deployment may have given them back
// after the backup: its tasks and window entries have later revisions, and another run time. With
// the gap, they claim nothing.
const revisionGap = 100_000

// tablesWithRevisions are those whose column revision is that of an open fire.
var tablesWithRevisions = []string{"fires", "deferred_fires"}

// Load writes the row of the restore first. So of two calls at once, the second waits, finds the
// part, and changes nothing; and after Finish, or once another backup is restored instead, it is
// refused. A call that dies leaves nothing, and a repeated one finds the part.
func (r *Restore) Load(ctx context.Context, b *backup.Table, file string, rows [][]any) error {
	if err := r.prepare(ctx, b, rows); err != nil {
		return err
	}
	s, t := r.store, r.tables[b.Name]
	if i := slices.Index(b.Columns, "revision"); slices.Contains(tablesWithRevisions, b.Name) {
		for _, row := range rows {
			n, _ := row[i].(int64)
			row[i] = min(n+revisionGap, math.MaxInt32)
		}
	}
	kinds := make([]columnKind, len(b.Columns))
	for i, column := range b.Columns {
		kinds[i] = t.kinds[slices.Index(t.columns, column)]
	}
	return s.db.Write(ctx, "restoring "+file, func(ctx context.Context, c sqldb.Runner) error {
		if err := r.touch(ctx, c); err != nil {
			return err
		}
		var backup string
		err := s.db.SelectOne(ctx, c, &backup,
			sqldb.Stmt("SELECT backup FROM "+restoreTable+" WHERE part=").Bind(file))
		if !errors.Is(err, sql.ErrNoRows) {
			return err // it is there, or that is not known
		}
		q := sqldb.Stmt("INSERT INTO " + restoreTable + " (part,backup,writes) SELECT ").Bind(file).
			Add(",backup,0 FROM " + restoreTable + " WHERE part=''")
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
		return r.insert(ctx, c, b, kinds, rows)
	})
}

// touch writes the row of the restore.
func (r *Restore) touch(ctx context.Context, c sqldb.Runner) error {
	n, err := r.store.db.Exec(
		ctx,
		c,
		sqldb.Stmt("UPDATE "+restoreTable+" SET writes=writes+1 WHERE part='' AND backup=").
			Bind(r.backup),
	)
	if err == nil && n == 0 {
		return errFinished
	}
	return err
}

// prepare adds the partitions for the rows of a part. The first part has the oldest rows.
func (r *Restore) prepare(ctx context.Context, b *backup.Table, rows [][]any) error {
	column := slices.Index(b.Columns, "finished_ms")
	if r.addPastDays == nil || column < 0 || len(rows) == 0 ||
		!slices.Contains(housekeeping.PartitionedTables, b.Name) {
		return nil
	}
	oldest, _ := rows[0][column].(int64)
	return r.addPastDays(ctx, b.Name, oldest)
}

// insert adds rows with statements of a bounded size.
func (r *Restore) insert(
	ctx context.Context, c sqldb.Runner, b *backup.Table, kinds []columnKind, rows [][]any,
) error {
	into := "INSERT INTO " + b.Name + " (" + strings.Join(b.Columns, ",") + ") VALUES "
	for len(rows) > 0 {
		q, n, size := sqldb.Stmt(into), 0, 0
		for n < min(len(rows), store.MaxBatch) && size < maxInsertBytes {
			q.Open(n == 0)
			for i, v := range rows[n] {
				if i > 0 {
					q.Add(",")
				}
				addValue(q, v, kinds[i])
				if text, ok := v.([]byte); ok {
					size += len(text)
				}
			}
			q.Add(")")
			n++
		}
		if _, err := r.store.db.Exec(ctx, c, q); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
