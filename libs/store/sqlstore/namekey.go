package sqlstore

import (
	"cmp"
	"slices"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// nameKey is the name of a timer, or an idempotency key, in an app.
type nameKey struct {
	app  int64
	name string
}

func (k nameKey) compare(o nameKey) int {
	return cmp.Or(cmp.Compare(k.app, o.app), cmp.Compare(k.name, o.name))
}

func distinct(keys []nameKey) []nameKey {
	slices.SortFunc(keys, nameKey.compare)
	return slices.Compact(keys)
}

// nameKeys adds "(app_id,column) IN (…)".
func inKeys(q *sqldb.Statement, d *sqldb.Dialect, column string, keys []nameKey) *sqldb.Statement {
	q.Add("(app_id," + column + ") IN (" + d.Tuples)
	for i, k := range keys {
		q.Open(i == 0).Int(k.app).Add(",").Bind(k.name).Add(")")
	}
	return q.Add(")")
}
