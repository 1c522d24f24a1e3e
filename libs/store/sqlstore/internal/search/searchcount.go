package search

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Count counts by an index alone if the filter allows it. Otherwise it examines candidates.
func (s *Searcher) Count(
	ctx context.Context,
	query store.SearchQuery,
) (count store.SearchCount, err error) {
	query.Sort, query.Desc, query.After = store.SortID, false, store.SearchPosition{}
	err = s.search(ctx, &query, func(ctx context.Context, r *search) error {
		var err error
		count, err = r.count(ctx)
		return err
	})
	if count.N > query.Limit {
		count = store.SearchCount{N: query.Limit, Minimum: true}
	}
	return count, err
}

func (r *search) count(ctx context.Context) (count store.SearchCount, err error) {
	if q := r.wholeIndex(); q != nil {
		count.N, err = r.countUpTo(ctx, q, r.Limit+1)
		return count, err
	}
	collected, inOrder, err := r.sources(ctx)
	if err != nil {
		return count, err
	}
	if collected != nil { // it is complete, because its driver has few timers
		inOrder = collected
	}
	budget, examine := r.Limits.Count, r.countExamined
	if r.ByDue() || r.LastOutcome != "" {
		budget = r.Budget
		examine = func(ctx context.Context, all []candidate) (int, error) {
			found, err := r.examine(ctx, all)
			return len(found), err
		}
	}
	for after := (store.SearchPosition{}); ; {
		part, err := inOrder(ctx, after)
		if err != nil {
			return count, err
		}
		n, err := examine(ctx, part.all)
		if err != nil {
			return count, err
		}
		count.N += n
		if count.N > r.Limit || !part.more {
			return count, nil
		}
		after = part.last
		if budget -= part.cost; budget <= 0 {
			count.Minimum = true
			return count, nil
		}
	}
}

// wholeIndex returns a statement whose rows are all timers that the filter selects, or nil.
func (r *search) wholeIndex() *sqldb.Statement {
	switch f := r.Filter; {
	case f.Status != "" || f.NameContains != "" || f.ByDue() || f.LastOutcome != "":
	case len(f.Labels) == 0 && f.TargetHost == "":
		q := sqldb.Stmt(
			"SELECT 1 FROM timers" + r.store.db.Dialect.ByLiveName + " WHERE app_id=",
		).Int(r.appID).
			Add(" AND live_name IS NOT NULL")
		if f.NamePrefix == "" {
			return q
		}
		q.Add(" AND live_name>=").Bind(f.NamePrefix)
		if end := prefixEnd(f.NamePrefix); end != "" {
			q.Add(" AND live_name<").Bind(end)
		}
		return q
	case len(f.Labels) == 0 && f.NamePrefix == "":
		a := timers.Attribute{App: r.appID, Kind: timers.KindHost, Value: f.TargetHost}
		return timers.WithAttribute(sqldb.Stmt("SELECT 1 FROM timer_attributes WHERE "), &a)
	case len(f.Labels) == 1 && f.TargetHost == "" && f.NamePrefix == "" && len(f.Labels[0].Values) == 1 &&
		f.Labels[0].Operator == "in":
		a := timers.Attribute{
			App:   r.appID,
			Kind:  timers.KindLabel,
			Name:  f.Labels[0].Name,
			Value: f.Labels[0].Values[0],
		}
		return timers.WithAttribute(sqldb.Stmt("SELECT 1 FROM timer_attributes WHERE "), &a)
	}
	return nil
}

// countExamined counts the candidates that the filter selects, without reading their rows.
func (r *search) countExamined(ctx context.Context, all []candidate) (n int, err error) {
	ids := make([]timer.ID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	slices.Sort(ids)
	for part := range sqldb.Batches(ids) {
		q := sqldb.Stmt("SELECT COUNT(*) FROM timers t" + r.store.db.Dialect.ByPrimary + " WHERE id").
			IDList(part)
		r.addConditions(q)
		var one int
		if err := r.store.db.SelectOne(ctx, r.c, &one, q); err != nil {
			return 0, err
		}
		n += one
	}
	return n, nil
}
