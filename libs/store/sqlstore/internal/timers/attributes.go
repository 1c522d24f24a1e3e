package timers

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
	KindLabel   = 0
	KindHost    = 1 // of a target; it has no name
	kindMetered = 2 // has metrics; see metered
)

// Attribute is what a timer that is not deleted can be searched by.
type Attribute struct {
	App         int64
	Kind        int64
	Name, Value string
	timer       timer.ID
}

func (a *Attribute) compare(b *Attribute) int {
	return cmp.Or(
		cmp.Compare(a.App, b.App),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Value, b.Value),
		cmp.Compare(a.timer, b.timer),
	)
}

// TimerAttributes returns the attributes of a timer's definition.
func TimerAttributes(t *timer.Timer) (all []Attribute) {
	for name, value := range t.Definition.Labels {
		all = append(all, Attribute{t.AppID, KindLabel, name, value, t.ID})
	}
	for _, host := range store.TargetHosts(&t.Definition) {
		all = append(all, Attribute{t.AppID, KindHost, "", host, t.ID})
	}
	if t.Definition.Metrics {
		all = append(all, metered(t.ID))
	}
	return all
}

// AttributeChanges has the attributes that edits remove and add.
type AttributeChanges struct{ Gone, Added []Attribute }

// Edit adds the difference between the attributes of two definitions of a timer.
func (c *AttributeChanges) Edit(before, after []Attribute) {
	for _, a := range before {
		if !slices.Contains(after, a) {
			c.Gone = append(c.Gone, a)
		}
	}
	for _, a := range after {
		if !slices.Contains(before, a) {
			c.Added = append(c.Added, a)
		}
	}
}

// InsertAttributes writes attributes in the order of their keys. The caller has the timers' rows
// inserted or locked, so no other transaction writes attributes of these timers. A call that is
// repeated after an unknown result begins with the row of the timer and does not come here. An
// existing row is kept: it says the same.
func (s *Rows) InsertAttributes(ctx context.Context, c sqldb.Runner, all []Attribute) error {
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

// DeleteAttributes deletes attributes in the order of their keys. The caller has the timers' rows
// locked.
func (s *Rows) DeleteAttributes(ctx context.Context, c sqldb.Runner, all []Attribute) error {
	for part := range sqldb.Batches(sortedAttributes(all)) {
		q := sqldb.Stmt(s.db.Dialect.DeleteFrom("timer_attributes", "PRIMARY") + " WHERE ")
		if len(part) == 1 { // see Statement.EqualTo
			WithAttribute(q, &part[0]).Add(" AND timer_id=").Int(int64(part[0].timer))
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

func sortedAttributes(all []Attribute) []Attribute {
	slices.SortFunc(all, func(a, b Attribute) int { return a.compare(&b) })
	return slices.Compact(all)
}

func addAttribute(q *sqldb.Statement, first bool, a *Attribute) {
	q.Open(first).Ints(a.App, a.Kind).Add(",").Bind(a.Name).Add(",").Bind(a.Value).Add(",").
		Int(int64(a.timer)).Add(")")
}

// WithAttribute adds the condition that a row of timer_attributes says what a says, of any timer.
func WithAttribute(q *sqldb.Statement, a *Attribute) *sqldb.Statement {
	return OfAttribute(q, a).Add(" AND value=").Bind(a.Value)
}

// OfAttribute adds the same condition for any value.
func OfAttribute(q *sqldb.Statement, a *Attribute) *sqldb.Statement {
	return q.Add("app_id=").Int(a.App).Add(" AND kind=").Int(a.Kind).Add(" AND name=").Bind(a.Name)
}
