package sqlstore

import (
	"context"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// searchBudget is how many candidates one call of Search examines.
	searchBudget = 10_000
	// searchChunk is how many of them one statement examines.
	searchChunk = store.MaxBatch
)

// search is one call of Search or Count. It reads candidates from an index, in the order of the
// query, and then examines their rows. What is written in between is found or not, as S34 says.
type search struct {
	*store.SearchQuery

	store *Store
	c     sqlx.QueryerContext
	appID int64
}

// candidate is a timer that may be selected.
type candidate struct {
	ID timer.ID `db:"id"`
}

func (c *candidate) position() store.SearchPosition { return store.SearchPosition{ID: c.ID} }

// Search finds timers.
func (s *Store) Search(
	ctx context.Context,
	query store.SearchQuery,
) (page store.SearchPage, err error) {
	if err := query.Check(); err != nil {
		return page, err
	}
	if query.Limit <= 0 {
		query.Limit = store.MaxBatch
	}
	appID, err := s.appID(ctx, query.App)
	if err != nil || appID == 0 {
		return page, err
	}
	err = s.read(ctx, "searching timers", func(ctx context.Context, c sqlx.QueryerContext) error {
		r := &search{SearchQuery: &query, store: s, c: c, appID: appID}
		var err error
		page, err = r.page(ctx)
		return err
	})
	return page, err
}

// page examines candidates until the page is full, there are no more, or the budget is used up.
func (r *search) page(ctx context.Context) (page store.SearchPage, err error) {
	var rows []timerRow
	page.Next = r.After
	for examined := 0; ; {
		candidates, err := r.next(ctx, page.Next, searchChunk)
		if err != nil {
			return page, err
		}
		found, err := r.examine(ctx, candidates)
		if err != nil {
			return page, err
		}
		for i := range candidates {
			if row, ok := found[candidates[i].ID]; ok {
				if len(rows) == r.Limit {
					page.More = true
					break
				}
				rows = append(rows, row)
			}
			page.Next = candidates[i].position()
		}
		examined += len(candidates)
		if page.More || len(candidates) < searchChunk {
			break
		}
		if examined >= searchBudget {
			page.More = true
			break
		}
	}
	page.Timers, err = r.store.timers(ctx, r.c, rows, nil)
	return page, err
}

// next reads candidates after a position.
func (r *search) next(
	ctx context.Context,
	after store.SearchPosition,
	limit int,
) (all []candidate, err error) {
	q := stmt("SELECT timer_id AS id FROM timer_attributes WHERE ")
	if driver, ok := r.driver(); ok {
		q.withAttribute("", &driver).add(" AND timer_id>").int(int64(after.ID)).
			add(" ORDER BY timer_id LIMIT ").int(int64(limit))
	} else {
		q = stmt("SELECT id FROM timers" + r.store.dialect.byApp + " WHERE app_id=").int(r.appID).
			add(" AND id>").int(int64(after.ID)).add(" ORDER BY id LIMIT ").int(int64(limit))
	}
	err = r.store.selectAll(ctx, r.c, &all, q)
	return all, err
}

// driver returns an attribute that all selected timers have.
func (r *search) driver() (attribute, bool) {
	for i := range r.Labels {
		if q := &r.Labels[i]; q.Operator == selector.In && len(q.Values) == 1 {
			return attribute{app: r.appID, kind: kindLabel, name: q.Name, value: q.Values[0]}, true
		}
	}
	return attribute{}, false
}

// examine returns the rows of the candidates that the filter selects.
func (r *search) examine(
	ctx context.Context,
	candidates []candidate,
) (map[timer.ID]timerRow, error) {
	found := make(map[timer.ID]timerRow, len(candidates))
	ids := make([]timer.ID, len(candidates))
	for i := range candidates {
		ids[i] = candidates[i].ID
	}
	slices.Sort(ids)
	for part := range batches(ids) {
		q := stmt("SELECT " + timerColumns + " FROM timers t" + r.store.dialect.byPrimary +
			" WHERE id").idList(part).add(" AND status")
		if r.Status == "" {
			q.add("<>").int(rowDeleted)
		} else {
			q.add("=").int(statusToRow(r.Status))
		}
		r.addConditions(q)
		var rows []timerRow
		if err := r.store.selectAll(ctx, r.c, &rows, q); err != nil {
			return nil, err
		}
		for i := range rows {
			found[timer.ID(rows[i].ID)] = rows[i]
		}
	}
	return found, nil
}

// addConditions adds the conditions on names and attributes.
func (r *search) addConditions(q *statement) {
	if r.NamePrefix != "" {
		q.add(" AND name>=").bind(r.NamePrefix)
		if end := prefixEnd(r.NamePrefix); end != "" {
			q.add(" AND name<").bind(end)
		}
	}
	if r.NameContains != "" {
		q.add(" AND INSTR(name,").bind(r.NameContains).add(")>0")
	}
	for i := range r.Labels {
		l := &r.Labels[i]
		switch l.Operator {
		case selector.NotIn, selector.NotExists:
			q.add(" AND NOT")
		case selector.In, selector.Exists:
			q.add(" AND")
		}
		q.hasAttribute(&attribute{app: r.appID, kind: kindLabel, name: l.Name}, l.Values)
	}
	if r.TargetHost != "" {
		a := attribute{app: r.appID, kind: kindHost}
		q.add(" AND").hasAttribute(&a, []string{r.TargetHost})
	}
}

// hasAttribute adds the condition that the timer t has the attribute with one of the values, or
// with any if there are none.
func (q *statement) hasAttribute(a *attribute, values []string) {
	q.add(" EXISTS (SELECT 1 FROM timer_attributes a WHERE ").ofAttribute("a.", a)
	if len(values) > 0 {
		q.add(" AND a.value IN (")
		for i, v := range values {
			if i > 0 {
				q.add(",")
			}
			q.bind(v)
		}
		q.add(")")
	}
	q.add(" AND a.timer_id=t.id)")
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

// Count counts timers, page by page.
func (s *Store) Count(
	ctx context.Context,
	query store.SearchQuery,
) (count store.SearchCount, err error) {
	limit := query.Limit
	query.Sort, query.Desc, query.After = store.SortID, false, store.SearchPosition{}
	query.Limit = store.MaxBatch
	for {
		page, err := s.Search(ctx, query)
		if err != nil {
			return count, err
		}
		count.N += len(page.Timers)
		if count.N > limit {
			return store.SearchCount{N: limit, Minimum: true}, nil
		}
		if query.After = page.Next; !page.More {
			return count, nil
		}
	}
}

// LastOutcomes reads the end of the index of outcomes for each timer.
func (s *Store) LastOutcomes(
	ctx context.Context,
	ids []timer.ID,
) (last map[timer.ID]timer.Outcome, err error) {
	err = s.read(ctx, "reading outcomes", func(ctx context.Context, c sqlx.QueryerContext) error {
		last = make(map[timer.ID]timer.Outcome, len(ids))
		for part := range batches(ids) {
			q := stmt("")
			for i, id := range part {
				if i > 0 {
					q.add(" UNION ALL ")
				}
				q.add("SELECT " + outcomeColumns + " FROM (SELECT " + outcomeColumns + " FROM outcomes" +
					s.dialect.byTimer + " WHERE timer_id=").
					int(int64(id)).
					add(" ORDER BY due_ms DESC,series DESC LIMIT 1) o").
					int(int64(i))
			}
			var rows []outcomeRow
			if err := s.selectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			for i := range rows {
				last[timer.ID(rows[i].Timer)] = rows[i].outcome()
			}
		}
		return nil
	})
	return last, err
}
