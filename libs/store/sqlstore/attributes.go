package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
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
func (s *Store) insertAttributes(ctx context.Context, c runner, all []attribute) error {
	const into = "INSERT INTO timer_attributes (app_id,kind,name,value,timer_id) VALUES "
	for q, part := range insertBlocks(s.dialect, sortedAttributes(all), into) {
		for i := range part {
			addAttribute(q, i == 0, &part[i])
		}
		if _, err := s.exec(ctx, c, q.add(s.dialect.onConflictNothing("kind"))); err != nil {
			return err
		}
	}
	return nil
}

// deleteAttributes deletes attributes in the order of their keys. The caller has the timers' rows
// locked.
func (s *Store) deleteAttributes(ctx context.Context, c runner, all []attribute) error {
	for part := range batches(sortedAttributes(all)) {
		q := stmt(s.dialect.deleteFrom("timer_attributes", "PRIMARY") + " WHERE ")
		if len(part) == 1 { // see equalTo
			withAttribute(q, &part[0]).add(" AND timer_id=").int(int64(part[0].timer))
		} else {
			q.add("(app_id,kind,name,value,timer_id) IN (" + s.dialect.tuples)
			for i := range part {
				addAttribute(q, i == 0, &part[i])
			}
			q.add(")")
		}
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

func sortedAttributes(all []attribute) []attribute {
	slices.SortFunc(all, func(a, b attribute) int { return a.compare(&b) })
	return slices.Compact(all)
}

func addAttribute(q *statement, first bool, a *attribute) {
	q.open(first).ints(a.app, a.kind).add(",").bind(a.name).add(",").bind(a.value).add(",").
		int(int64(a.timer)).add(")")
}

// withAttribute adds the condition that a row of timer_attributes says what a says, of any timer.
func withAttribute(q *statement, a *attribute) *statement {
	return ofAttribute(q, a).add(" AND value=").bind(a.value)
}

// ofAttribute adds the same condition for any value.
func ofAttribute(q *statement, a *attribute) *statement {
	return q.add("app_id=").int(a.app).add(" AND kind=").int(a.kind).add(" AND name=").bind(a.name)
}
