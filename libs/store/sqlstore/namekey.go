package sqlstore

import (
	"cmp"
	"slices"
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
func inKeys(q *statement, d *dialect, column string, keys []nameKey) *statement {
	q.add("(app_id," + column + ") IN (" + d.tuples)
	for i, k := range keys {
		q.open(i == 0).int(k.app).add(",").bind(k.name).add(")")
	}
	return q.add(")")
}
