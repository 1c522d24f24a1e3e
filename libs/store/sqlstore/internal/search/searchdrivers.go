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

// estimateLimit bounds how many entries of an index an estimate counts.
const estimateLimit = 10_001

// driver is a part of an index that has all timers that the filter selects.
type driver struct {
	timers.Attribute

	values []string // of the attribute; its source is in order of id

	from     source      // in no order; nil: by attribute and values, or by listed
	listed   []candidate // all of them, if it is not nil
	estimate int         // entries, up to estimateLimit
}

// sources chooses where to read candidates. It returns a source to collect from, or nil, and one in
// the order of the query, or nil.
func (r *search) sources(ctx context.Context) (collected, inOrder source, err error) {
	all, err := r.drivers(ctx)
	if err != nil {
		return nil, nil, err
	}
	var best, ordered *driver // those with the fewest entries
	for i := range all {
		d := &all[i]
		if best == nil || d.estimate < best.estimate {
			best = d
		}
		if d.from == nil && (ordered == nil || d.estimate < ordered.estimate) {
			ordered = d
		}
	}
	fromBest := r.sourceOf(best)
	switch r.Sort {
	case store.SortID:
		inOrder = r.sourceOf(ordered)
		if best != nil && best != ordered && best.estimate <= r.Limits.Collect {
			collected = fromBest
		}
	case store.SortName:
		if inOrder = r.byName; best != nil && best.estimate <= r.Limits.Collect {
			collected = fromBest
		}
	case store.SortNextDue:
		inOrder = r.byDue
		if few, err := r.mayBeFew(ctx); err != nil || !few {
			return nil, inOrder, err
		}
		collected = fromBest
	case store.SortLastFired:
		collected = fromBest
	}
	return collected, inOrder, nil
}

// mayBeFew reports whether the filter may select few enough timers to sort them.
func (r *search) mayBeFew(ctx context.Context) (bool, error) {
	q := r.wholeIndex()
	if q == nil {
		return true, nil
	}
	n, err := r.countUpTo(ctx, q, r.Exact+1)
	return n <= r.Exact, err
}

func (r *search) sourceOf(d *driver) source {
	switch {
	case d == nil:
		return r.byID(nil)
	case d.from != nil:
		return d.from
	case d.listed != nil:
		return r.byList(d.listed)
	}
	return r.byID(d)
}

// byList returns a source of candidates that are read already, in order of id.
func (r *search) byList(all []candidate) source {
	slices.SortFunc(all, func(a, b candidate) int { return int(a.ID - b.ID) })
	all = slices.CompactFunc(all, func(a, b candidate) bool { return a.ID == b.ID })
	if r.Desc {
		slices.Reverse(all)
	}
	return func(_ context.Context, after store.SearchPosition) (part candidates, err error) {
		n := 0
		if after.ID != 0 {
			n = slices.IndexFunc(all, func(c candidate) bool {
				return c.ID != after.ID && c.ID > after.ID != r.Desc
			})
			if n < 0 {
				return part, nil
			}
		}
		part.all = slices.Clone(all[n:min(len(all), n+r.Chunk)])
		for i := range part.all {
			part.all[i] = candidate{ID: part.all[i].ID}
			part.last = part.all[i].position()
		}
		part.cost, part.more = len(part.all), n+r.Chunk < len(all)
		return part, nil
	}
}

// drivers returns the parts of indexes that the filter allows, with the numbers of their entries.
func (r *search) drivers(ctx context.Context) (all []driver, err error) {
	for i := range r.Labels {
		l := &r.Labels[i]
		a := timers.Attribute{App: r.appID, Kind: timers.KindLabel, Name: l.Name}
		switch l.Operator {
		case selector.In:
			all = append(all, driver{Attribute: a, values: l.Values})
		case selector.Exists:
			all = append(all, driver{Attribute: a, from: r.withName(&a)})
		case selector.NotIn, selector.NotExists:
		}
	}
	if r.TargetHost != "" {
		a := timers.Attribute{App: r.appID, Kind: timers.KindHost}
		all = append(all, driver{Attribute: a, values: []string{r.TargetHost}})
	}
	if len(all) == 1 && all[0].from == nil && r.Sort == store.SortID && r.NamePrefix == "" &&
		!r.ByDue() && r.LastOutcome == "" {
		return all, nil // nothing to choose
	}
	for i := range all {
		if all[i].estimate, err = r.estimate(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	if r.NamePrefix != "" && r.Sort != store.SortName {
		d := driver{from: r.byName}
		if d.estimate, err = r.namesWithPrefix(ctx); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	for _, once := range []func(context.Context) ([]candidate, bool, error){r.withDue, r.withFailure} {
		found, complete, err := once(ctx)
		if err != nil {
			return nil, err
		}
		if complete {
			found = append(found, candidate{})[:len(found)] // not nil
			all = append(all, driver{estimate: len(found), listed: found})
		}
	}
	return all, nil
}

// estimate counts the timers with an attribute, up to estimateLimit for each value.
func (r *search) estimate(ctx context.Context, d *driver) (n int, err error) {
	if d.from != nil {
		q := timers.OfAttribute(sqldb.Stmt("SELECT 1 FROM timer_attributes WHERE "), &d.Attribute)
		return r.countUpTo(ctx, q, estimateLimit)
	}
	for _, value := range d.values {
		a := d.Attribute
		a.Value = value
		q := timers.WithAttribute(sqldb.Stmt("SELECT 1 FROM timer_attributes WHERE "), &a)
		one, err := r.countUpTo(ctx, q, estimateLimit)
		if err != nil {
			return 0, err
		}
		if n += one; n >= estimateLimit {
			return estimateLimit, nil
		}
	}
	return n, nil
}

func (r *search) namesWithPrefix(ctx context.Context) (int, error) {
	q := sqldb.Stmt("SELECT 1 FROM timers" + r.store.db.Dialect.ByLiveName + " WHERE app_id=").
		Int(r.appID).
		Add(" AND live_name>=").
		Bind(r.NamePrefix)
	if end := prefixEnd(r.NamePrefix); end != "" {
		q.Add(" AND live_name<").Bind(end)
	}
	return r.countUpTo(ctx, q, estimateLimit)
}

// countUpTo counts the rows of a statement, up to a limit.
func (r *search) countUpTo(ctx context.Context, q *sqldb.Statement, limit int) (n int, err error) {
	c := sqldb.Stmt("SELECT COUNT(*) FROM (").
		Append(q).
		Add(" LIMIT ").
		Int(int64(limit)).
		Add(") n")
	err = r.store.db.SelectOne(ctx, r.c, &n, c)
	return n, err
}

// withName reads the timers with a label, in order of its value.
func (r *search) withName(a *timers.Attribute) source {
	return func(ctx context.Context, after store.SearchPosition) (candidates, error) {
		q := timers.OfAttribute(
			sqldb.Stmt("SELECT timer_id AS id,value AS name FROM timer_attributes WHERE "),
			a,
		)
		if after.ID != 0 {
			q.Add(" AND value>=").Bind(after.Name).Add(" AND (value>").Bind(after.Name).
				Add(" OR timer_id>").Int(int64(after.ID)).Add(")")
		}
		return r.read(ctx, q.Add(" ORDER BY value,timer_id LIMIT ").Int(int64(r.Chunk)), r.Chunk)
	}
}

// withDue reads the timers that may be due as the filter wants it, if they are at most
// Limits.Collect.
func (r *search) withDue(ctx context.Context) (all []candidate, complete bool, err error) {
	if r.DueToMS == 0 {
		return nil, false, nil // nearly all timers
	}
	for _, d := range r.dueColumns() {
		q := r.fromDue(&d, store.SearchPosition{}, r.Limits.Collect+1)
		part, err := r.read(ctx, q, r.Limits.Collect+1)
		if err != nil || part.more {
			return nil, false, err
		}
		all = append(all, part.all...)
	}
	return all, true, nil
}

// withFailure reads the timers with failed outcomes, if these are not many.
func (r *search) withFailure(ctx context.Context) (all []candidate, complete bool, err error) {
	if r.LastOutcome != timer.Failed {
		return nil, false, nil
	}
	part, err := r.read(
		ctx,
		sqldb.Stmt("SELECT timer_id AS id FROM failed_outcomes WHERE app_id=").Int(r.appID).
			Add(" ORDER BY finished_ms DESC LIMIT ").Int(estimateLimit),
		estimateLimit,
	)
	return part.all, err == nil && !part.more, err
}
