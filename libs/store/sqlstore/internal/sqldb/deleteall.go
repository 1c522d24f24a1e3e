package sqldb

import "context"

const (
	deleteChunk  = 1000 // rows of one DELETE: keeps transactions and locks short
	deleteChunks = 1000 // for one table in one call
)

// DeleteAll deletes matching rows in chunks, up to deleteChunks. The next call continues.
func (s *DB) DeleteAll(ctx context.Context, table, key, order string, where *Statement) error {
	for range deleteChunks {
		n, err := s.Autocommit(ctx, "trimming "+table, func() *Statement {
			return s.Dialect.DeleteUpTo(table, key, order, string(where.Text), deleteChunk)
		})
		if err != nil || n < deleteChunk {
			return err
		}
	}
	return nil
}
