package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The kinds of attributes.
const (
	kindLabel   = 0
	kindHost    = 1 // of a target; it has no name
	kindMetered = 2 // has metrics; see metered
)

// attribute is what a timer that is not deleted can be searched by.
type attribute struct {
	app         int64
	kind        int64
	name, value string
	timer       timer.ID
}

func (a *attribute) compare(b *attribute) int {
	return cmp.Or(
		cmp.Compare(a.app, b.app),
		cmp.Compare(a.kind, b.kind),
		cmp.Compare(a.name, b.name),
		cmp.Compare(a.value, b.value),
		cmp.Compare(a.timer, b.timer),
	)
}

// timerAttributes returns the attributes of a timer's definition.
func timerAttributes(t *timer.Timer) (all []attribute) {
	for name, value := range t.Definition.Labels {
		all = append(all, attribute{t.AppID, kindLabel, name, value, t.ID})
	}
	for _, host := range store.TargetHosts(&t.Definition) {
		all = append(all, attribute{t.AppID, kindHost, "", host, t.ID})
	}
	if t.Definition.Metrics {
		all = append(all, metered(t.ID))
	}
	return all
}

// attributeChanges has the attributes that edits remove and add.
type attributeChanges struct{ gone, added []attribute }

// edit adds the difference between the attributes of two definitions of a timer.
func (c *attributeChanges) edit(before, after []attribute) {
	for _, a := range before {
		if !slices.Contains(after, a) {
			c.gone = append(c.gone, a)
		}
	}
	for _, a := range after {
		if !slices.Contains(before, a) {
			c.added = append(c.added, a)
		}
	}
}

// insertAttributes writes attributes in the order of their keys. The caller has the timers' rows
// inserted or locked, so no other transaction writes attributes of these timers. A call that is
// repeated after an unknown result begins with the row of the timer and does not come here. An
// existing row is kept: it says the same.
func (s *Store) insertAttributes(ctx context.Context, c sqldb.Runner, all []attribute) error {
	const into = "INSERT INTO timer_attributes (app_id,kind,name,value,timer_id) VALUES "
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, sortedAttributes(all), into) {
		for i := range part {
			addAttribute(q, i == 0, &part[i])
		}
		if _, err := s.db.Exec(ctx, c, q.Add(s.db.Dialect.OnConflictNothing("kind"))); err != nil {
			return err
		}
	}
	return nil
}

// deleteAttributes deletes attributes in the order of their keys. The caller has the timers' rows
// locked.
func (s *Store) deleteAttributes(ctx context.Context, c sqldb.Runner, all []attribute) error {
	for part := range sqldb.Batches(sortedAttributes(all)) {
		q := sqldb.Stmt(s.db.Dialect.DeleteFrom("timer_attributes", "PRIMARY") + " WHERE ")
		if len(part) == 1 { // see sqldb.EqualTo
			withAttribute(q, &part[0]).Add(" AND timer_id=").Int(int64(part[0].timer))
		} else {
			q.Add("(app_id,kind,name,value,timer_id) IN (" + s.db.Dialect.Tuples)
			for i := range part {
				addAttribute(q, i == 0, &part[i])
			}
			q.Add(")")
		}
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

func sortedAttributes(all []attribute) []attribute {
	slices.SortFunc(all, func(a, b attribute) int { return a.compare(&b) })
	return slices.Compact(all)
}

func addAttribute(q *sqldb.Statement, first bool, a *attribute) {
	q.Open(first).Ints(a.app, a.kind).Add(",").Bind(a.name).Add(",").Bind(a.value).Add(",").
		Int(int64(a.timer)).Add(")")
}

// withAttribute adds the condition that a row of timer_attributes says what a says, of any timer.
func withAttribute(q *sqldb.Statement, a *attribute) *sqldb.Statement {
	return ofAttribute(q, a).Add(" AND value=").Bind(a.value)
}

// ofAttribute adds the same condition for any value.
func ofAttribute(q *sqldb.Statement, a *attribute) *sqldb.Statement {
	return q.Add("app_id=").Int(a.app).Add(" AND kind=").Int(a.kind).Add(" AND name=").Bind(a.name)
}
