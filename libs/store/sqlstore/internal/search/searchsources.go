package search

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// byID reads the candidates in order of id: those with an attribute, or all of the app.
func (r *search) byID(d *driver) source {
	return func(ctx context.Context, after store.SearchPosition) (candidates, error) {
		if d == nil {
			q := sqldb.Stmt(
				"SELECT id FROM timers" + r.store.db.Dialect.ByApp + " WHERE app_id=",
			).Int(r.appID)
			return r.read(ctx, r.fromID(q, "id", after.ID), r.Chunk)
		}
		if len(d.values) == 1 {
			return r.read(ctx, r.withValue(d, d.values[0], after.ID), r.Chunk)
		}
		// A statement with several values would sort all of their timers.
		q := sqldb.Stmt("SELECT id FROM (")
		for i, value := range d.values {
			if i > 0 {
				q.Add(" UNION ALL ")
			}
			part := r.withValue(d, value, after.ID)
			q.Add("SELECT id FROM (").Append(part).Add(") v" + strconv.Itoa(i))
		}
		q.Add(") a ORDER BY id" + r.direction() + " LIMIT ").Int(int64(r.Chunk))
		return r.read(ctx, q, r.Chunk)
	}
}

// withValue selects the timers with a value of an attribute.
func (r *search) withValue(d *driver, value string, after timer.ID) *sqldb.Statement {
	a := d.Attribute
	a.Value = value
	q := timers.WithAttribute(sqldb.Stmt("SELECT timer_id AS id FROM timer_attributes WHERE "), &a)
	return r.fromID(q, "timer_id", after)
}

// fromID adds the part after an id, in the direction of the query.
func (r *search) fromID(q *sqldb.Statement, column string, after timer.ID) *sqldb.Statement {
	if after != 0 {
		q.Add(" AND " + column + r.operator()).Int(int64(after))
	}
	return q.Add(" ORDER BY " + column + r.direction() + " LIMIT ").Int(int64(r.Chunk))
}

func (r *search) operator() string {
	if r.Desc {
		return "<"
	}
	return ">"
}

func (r *search) direction() string {
	if r.Desc {
		return " DESC"
	}
	return ""
}

// read runs a statement of a source that is limited to chunk candidates.
func (r *search) read(
	ctx context.Context,
	q *sqldb.Statement,
	chunk int,
) (part candidates, err error) {
	if err := r.store.db.SelectAll(ctx, r.c, &part.all, q); err != nil {
		return part, err
	}
	part.cost, part.more = len(part.all), len(part.all) == chunk
	if part.cost > 0 {
		part.last = part.all[part.cost-1].position()
	}
	return part, nil
}

// byName reads the candidates in order of name, from the index of names. It leaves out names that
// the filter does not select: nameCost of them cost as much as a candidate.
func (r *search) byName(ctx context.Context, after store.SearchPosition) (candidates, error) {
	chunk := r.Chunk
	if r.NameContains != "" {
		chunk = r.Names
	}
	q := sqldb.Stmt("SELECT id,live_name AS name FROM timers" + r.store.db.Dialect.ByLiveName +
		" WHERE app_id=").Int(r.appID).Add(" AND live_name IS NOT NULL")
	if r.NamePrefix != "" {
		q.Add(" AND live_name>=").Bind(r.NamePrefix)
		if end := prefixEnd(r.NamePrefix); end != "" {
			q.Add(" AND live_name<").Bind(end)
		}
	}
	if after.ID != 0 {
		q.Add(" AND live_name" + r.operator()).Bind(after.Name)
	}
	q.Add(" ORDER BY live_name" + r.direction() + " LIMIT ").Int(int64(chunk))
	part, err := r.read(ctx, q, chunk)
	if r.NameContains != "" {
		n := part.cost / nameCost
		part.all = slices.DeleteFunc(
			part.all,
			func(c candidate) bool { return !strings.Contains(c.Name, r.NameContains) },
		)
		part.cost = n + len(part.all)
	}
	return part, err
}

// prefixEnd returns the first text behind all texts with a prefix, in the order of bytes, which is
// that of characters. It is empty if there is none.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		for last++; last <= unicode.MaxRune; last++ {
			if utf8.ValidRune(last) {
				return prefix + string(last)
			}
		}
	}
	return ""
}

// expandedMS is more than the longest time that can be expanded ahead, a day. Fires of fixed delays
// may be expanded further, but one at a time.
const expandedMS = 25 * 60 * timer.MinuteMS

// dueColumn is one of the two columns by which timers that are due are found.
type dueColumn struct {
	name, index string
	from, to    int64 // included and excluded, by the filter
}

// dueColumns returns where to search. A timer is due by last_due_ms until that has passed: then, or
// before if it is due several times within the time that is expanded. After that it is due by
// next_due_ms, which has passed only if the timer is about to be expanded.
func (r *search) dueColumns() [2]dueColumn {
	to := timer.NeverMS
	if r.DueToMS != 0 {
		to = r.DueToMS
	}
	last := to
	if last != timer.NeverMS {
		last = max(last, r.nowMS+expandedMS)
	}
	return [2]dueColumn{
		{"last_due_ms", r.store.db.Dialect.ByLastDue, r.nowMS + 1, last},
		{"next_due_ms", r.store.db.Dialect.ByNextDue, 0, to},
	}
}

// fromDue selects the active timers by a column, from a position on.
func (r *search) fromDue(d *dueColumn, after store.SearchPosition, limit int) *sqldb.Statement {
	q := sqldb.Stmt(
		"SELECT id," + d.name + " AS at_ms FROM timers" + d.index + " WHERE app_id=",
	).Int(r.appID).
		Add(" AND status=").
		Int(timers.RowActive)
	columns, values := []string{d.name, "id"}, []int64{after.AtMS, int64(after.ID)}
	q.Add(" AND " + d.name + ">=").Int(d.from).Add(" AND " + d.name + "<").Int(d.to)
	if after.ID != 0 {
		operator := ">"
		if r.Desc {
			operator = "<"
		}
		q.Add(" AND ")
		r.store.db.Dialect.CompareInts(q, operator, columns, values)
	}
	return q.Add(" ORDER BY " + d.name + r.direction() + ",id" + r.direction() + " LIMIT ").
		Int(int64(limit))
}

// byDue reads the candidates in order of what their rows tell about their next due instants, and
// then those that are not due.
func (r *search) byDue(
	ctx context.Context,
	after store.SearchPosition,
) (part candidates, err error) {
	notDue := store.SearchPosition{AtMS: timer.NeverMS}
	if after.AtMS != timer.NeverMS {
		var more bool
		for _, d := range r.dueColumns() {
			one, err := r.read(ctx, r.fromDue(&d, after, r.Chunk), r.Chunk)
			if err != nil {
				return part, err
			}
			part.all = append(part.all, one.all...)
			more = more || one.more
		}
		slices.SortFunc(
			part.all,
			func(a, b candidate) int { return r.Compare(a.position(), b.position()) },
		)
		part.last, part.more = notDue, !r.ByDue()
		if more {
			part.all = part.all[:r.Chunk]
			part.last, part.more = part.all[r.Chunk-1].position(), true
		}
		part.cost = len(part.all)
		return part, nil
	}
	q := sqldb.Stmt("SELECT id,").Int(timer.NeverMS).
		Add(" AS at_ms FROM timers" + r.store.db.Dialect.ByApp + " WHERE app_id=").Int(r.appID)
	part, err = r.read(ctx, r.fromID(q, "id", after.ID), r.Chunk)
	return part, err
}

// isAt reports whether a row is where byDue found it.
func (r *search) isAt(m *match) bool {
	at := m.row.NextDueMS
	if m.row.LastDueMS > r.nowMS {
		at = m.row.LastDueMS
	}
	if m.row.Status != timers.RowActive {
		at = timer.NeverMS
	}
	return m.AtMS == at
}
