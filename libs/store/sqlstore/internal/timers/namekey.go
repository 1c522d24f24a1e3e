package timers

import (
	"cmp"
	"slices"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// NameKey is the name of a timer, or an idempotency key, in an app.
type NameKey struct {
	App  int64
	Name string
}

// Compare orders keys as the databases do.
func (k NameKey) Compare(o NameKey) int {
	return cmp.Or(cmp.Compare(k.App, o.App), cmp.Compare(k.Name, o.Name))
}

// DistinctKeys sorts keys and returns each once.
func DistinctKeys(keys []NameKey) []NameKey {
	slices.SortFunc(keys, NameKey.Compare)
	return slices.Compact(keys)
}

// InKeys adds "(app_id,column) IN (…)".
func InKeys(q *sqldb.Statement, d *sqldb.Dialect, column string, keys []NameKey) *sqldb.Statement {
	q.Add("(app_id," + column + ") IN (" + d.Tuples)
	for i, k := range keys {
		q.Open(i == 0).Int(k.App).Add(",").Bind(k.Name).Add(")")
	}
	return q.Add(")")
}
