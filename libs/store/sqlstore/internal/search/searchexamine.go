package search

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// examine returns the candidates that the filter selects, in their order.
func (r *search) examine(ctx context.Context, all []candidate) ([]match, error) {
	rows := make(map[timer.ID]timers.Row, len(all))
	ids := make([]timer.ID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	slices.Sort(ids)
	for part := range sqldb.Batches(ids) {
		q := sqldb.Stmt("SELECT " + timers.Columns + " FROM timers t" + r.store.db.Dialect.ByPrimary +
			" WHERE id").
			IDList(part)
		r.addConditions(q)
		var found []timers.Row
		if err := r.store.db.SelectAll(ctx, r.c, &found, q); err != nil {
			return nil, err
		}
		for i := range found {
			rows[timer.ID(found[i].ID)] = found[i]
		}
	}
	var matches []match
	for i := range all {
		if row, ok := rows[all[i].ID]; ok {
			matches = append(matches, match{all[i], row})
		}
	}
	return r.examineDues(ctx, matches)
}

// examineDues leaves out matches by what their rows do not have.
func (r *search) examineDues(ctx context.Context, all []match) ([]match, error) {
	if r.ByDue() {
		dues, err := r.dues(ctx, all)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(
			all,
			func(m match) bool { return !r.SelectsDue(dues[timer.ID(m.row.ID)]) },
		)
	}
	if r.LastOutcome == "" {
		return all, nil
	}
	last, err := r.store.history.LastOutcomes(ctx, r.c, idsOfMatches(all), r.nowMS)
	return slices.DeleteFunc(all, func(m match) bool {
		kind := store.OutcomeNone
		if o, ok := last[timer.ID(m.row.ID)]; ok {
			kind = o.Kind
		}
		return kind != r.LastOutcome
	}), err
}

// dues returns the next due instants of matches. It loads and computes only those that their rows
// do not tell.
func (r *search) dues(ctx context.Context, all []match) (map[timer.ID]int64, error) {
	dues := make(map[timer.ID]int64, len(all))
	var rows []timers.Row
	for i := range all {
		row := &all[i].row
		switch {
		case row.Status != timers.RowActive:
			dues[timer.ID(row.ID)] = timer.NeverMS
		case row.LastDueMS <= r.nowMS && row.NextDueMS > r.nowMS && row.Replan == timers.ReplanNothing &&
			(row.NextDueMS == timer.NeverMS || row.ExpandAtMS != timer.NeverMS):
			dues[timer.ID(row.ID)] = row.NextDueMS
		default: // it is due before, is about to be planned again, or has reached max_fires
			rows = append(rows, *row)
		}
	}
	ts, err := r.store.timers.CompleteAll(ctx, r.c, rows, nil)
	if err != nil {
		return nil, err
	}
	for i := range ts {
		if ts[i].Definition.Unreadable != "" { // nobody knows its instants
			dues[ts[i].ID] = timer.NeverMS
			continue
		}
		if dues[ts[i].ID], err = r.NextDue(ctx, &ts[i]); err != nil {
			return nil, err
		}
	}
	return dues, nil
}

// addConditions adds the conditions on the status, the name and the attributes of the timer t.
func (r *search) addConditions(q *sqldb.Statement) {
	// The sum keeps SQLite from searching an index for the status, which reads all its timers.
	if r.Status == "" {
		q.Add(" AND status+0<>").Int(timers.RowDeleted)
	} else {
		q.Add(" AND status+0=").Int(timers.StatusToRow(r.Status))
	}
	if r.NamePrefix != "" {
		q.Add(" AND INSTR(name,").Bind(r.NamePrefix).Add(")=1")
	}
	if r.NameContains != "" {
		q.Add(" AND INSTR(name,").Bind(r.NameContains).Add(")>0")
	}
	for i := range r.Labels {
		l := &r.Labels[i]
		wanted := l.Operator == selector.In || l.Operator == selector.Exists
		r.addAttribute(q, timers.KindLabel, l.Name, l.Values, wanted)
	}
	if r.TargetHost != "" {
		r.addAttribute(q, timers.KindHost, "", []string{r.TargetHost}, true)
	}
}

// addAttribute adds the condition that the timer t has an attribute with one of the values, or with
// any if there are none, or that it has not. It reads the attributes of one timer: the optimizer may
// turn EXISTS into a join that reads those of all timers.
func (r *search) addAttribute(
	q *sqldb.Statement,
	kind int64,
	name string,
	values []string,
	wanted bool,
) {
	q.Add(" AND (SELECT 1 FROM timer_attributes a" + r.store.db.Dialect.ByTimer +
		" WHERE a.timer_id=t.id AND a.kind=").Int(kind).Add(" AND a.name=").Bind(name)
	if len(values) > 0 {
		q.Add(" AND a.value IN (")
		for i, v := range values {
			if i > 0 {
				q.Add(",")
			}
			q.Bind(v)
		}
		q.Add(")")
	}
	q.Add(" LIMIT 1) IS ")
	if wanted {
		q.Add("NOT ")
	}
	q.Add("NULL")
}
