package search

import (
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Limits is how much one call of Search or Count examines.
type Limits struct {
	Chunk    int // candidates of one statement
	Budget   int // candidates of a page
	Collect  int // candidates of an attempt to sort, if an index has the order too
	Exact    int // timers that are sorted
	Outcomes int // candidates of a page, if their outcomes are read
	Count    int // candidates of a count
	Names    int // names of one statement
}

// DefaultLimits are those of programs.
func DefaultLimits() *Limits {
	return &Limits{
		Chunk: store.MaxBatch, Budget: 5_000, Collect: 2_500, Exact: store.SortExact,
		Outcomes: 2_000, Count: 50_000, Names: 5_000,
	}
}

// followTime is how long a page examines candidates, if many are not selected. A server that reads
// rows from disk examines fewer of them.
const followTime = 15 * time.Millisecond

// nameCost is how many names of their index cost as much as a row.
const nameCost = 10

// search is one call of Search or Count. It reads candidates from an index and then examines their
// rows, so each statement is bounded, whatever the filter is.
//
// If the filter is selective, or no index has the order, it collects all timers and sorts them.
// Otherwise it follows an index that has the order. Several requirements about labels follow the one
// with the fewest timers.
//
// It takes no locks, and each statement sees what is committed when it begins. A timer is selected
// by its row and attributes of one statement.
type search struct {
	*store.SearchQuery
	Limits

	store *Searcher
	c     sqlx.QueryerContext
	appID int64
	nowMS int64
}

// candidate is a timer that may be selected.
type candidate struct {
	ID   timer.ID `db:"id"`
	Name string   `db:"name"`
	AtMS int64    `db:"at_ms"`
}

func (c *candidate) position() store.SearchPosition {
	return store.SearchPosition{ID: c.ID, Name: c.Name, AtMS: c.AtMS}
}

// candidates is a part of a source.
type candidates struct {
	all  []candidate
	last store.SearchPosition // up to where the part goes
	more bool                 // there is another part
	cost int                  // in candidates
}

// source returns the candidates after a position, in the order of the query unless it is collected.
type source func(ctx context.Context, after store.SearchPosition) (candidates, error)

// match is a row that the filter selects.
type match struct {
	candidate

	row timers.Row
}

// Search finds timers.
func (s *Searcher) Search(
	ctx context.Context,
	query store.SearchQuery,
) (page store.SearchPage, err error) {
	if query.Limit <= 0 {
		query.Limit = store.MaxBatch
	}
	err = s.search(ctx, &query, func(ctx context.Context, r *search) error {
		var err error
		page, err = r.page(ctx)
		return err
	})
	return page, err
}

// search runs a search of an app that exists.
func (s *Searcher) search(
	ctx context.Context,
	query *store.SearchQuery,
	run func(ctx context.Context, r *search) error,
) error {
	if err := query.Check(); err != nil {
		return err //nolint:wrapcheck // it says what is wrong
	}
	appID, err := s.apps.ID(ctx, query.App)
	if err != nil || appID == 0 {
		return err
	}
	return s.db.Read(
		ctx,
		"searching timers",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			r := &search{
				SearchQuery: query, Limits: *s.limits,
				store: s, c: c, appID: appID, nowMS: nowMS,
			}
			return run(ctx, r)
		},
	)
}

func (r *search) page(ctx context.Context) (page store.SearchPage, err error) {
	collected, inOrder, err := r.sources(ctx)
	if err != nil {
		return page, err
	}
	if collected != nil {
		budget := r.Budget
		if inOrder != nil {
			budget = r.Limits.Collect
		}
		all, complete, err := r.collect(ctx, collected, budget)
		if err != nil {
			return page, err
		}
		if complete {
			return r.sorted(ctx, all)
		}
	}
	if inOrder == nil {
		return page, store.TooManyToSort() //nolint:wrapcheck // it says what is wrong
	}
	return r.follow(ctx, inOrder)
}

// collect reads all timers that the filter selects, if they are at most SortExact.
func (r *search) collect(
	ctx context.Context,
	from source,
	budget int,
) (all []match, complete bool, err error) {
	var after store.SearchPosition
	for cost := 0; cost < budget; {
		part, err := from(ctx, after)
		if err != nil {
			return nil, false, err
		}
		found, err := r.examine(ctx, part.all)
		if err != nil {
			return nil, false, err
		}
		if all = append(all, found...); len(all) > r.Exact {
			return nil, false, nil
		}
		if !part.more {
			return all, true, nil
		}
		after, cost = part.last, cost+part.cost
	}
	return nil, false, nil
}

// sorted returns the page of collected timers.
func (r *search) sorted(ctx context.Context, all []match) (page store.SearchPage, err error) {
	if err := r.setKeys(ctx, all); err != nil {
		return page, err
	}
	slices.SortFunc(all, func(a, b match) int { return r.Compare(a.position(), b.position()) })
	if r.After != (store.SearchPosition{}) {
		all = slices.DeleteFunc(
			all,
			func(m match) bool { return r.Compare(m.position(), r.After) <= 0 },
		)
	}
	page.More = len(all) > r.Limit
	all = all[:min(len(all), r.Limit)]
	if len(all) > 0 {
		page.Next = all[len(all)-1].position()
	}
	return page, r.load(ctx, &page, all)
}

// setKeys sets what the timers are sorted by.
func (r *search) setKeys(ctx context.Context, all []match) error {
	for i := range all {
		all[i].candidate = candidate{ID: timer.ID(all[i].row.ID)}
		if r.Sort == store.SortName {
			all[i].Name = all[i].row.Name
		}
	}
	switch r.Sort {
	case store.SortNextDue:
		dues, err := r.dues(ctx, all)
		for i := range all {
			all[i].AtMS = dues[all[i].ID]
		}
		return err
	case store.SortLastFired:
		last, err := r.store.history.LastDues(ctx, r.c, idsOfMatches(all), r.nowMS)
		for i := range all {
			due, ok := last[all[i].ID]
			if all[i].AtMS = due; !ok {
				all[i].AtMS = timer.NeverMS
			}
		}
		return err
	case store.SortID, store.SortName:
	}
	return nil
}

// follow examines candidates until the page is full, there are no more, or the budget is used up.
func (r *search) follow(ctx context.Context, from source) (page store.SearchPage, err error) {
	var all []match
	budget := r.Budget
	if r.LastOutcome != "" {
		budget = r.Outcomes
	}
	page.Next = r.After
	begin, missed := time.Now(), 0
	whole := r.Chunk
	r.Chunk = min(whole, r.Limit+1) // perhaps they are all selected
	for {
		part, err := from(ctx, page.Next)
		if err != nil {
			return page, err
		}
		found, err := r.examine(ctx, part.all)
		if err != nil {
			return page, err
		}
		if r.Sort == store.SortNextDue {
			found = slices.DeleteFunc(found, func(m match) bool { return !r.isAt(&m) })
		}
		all = append(all, found...)
		missed += part.cost - len(found)
		if len(all) > r.Limit {
			all = all[:r.Limit]
			page.More, page.Next = true, all[r.Limit-1].position()
			break
		}
		page.Next, page.More, r.Chunk = part.last, part.more, whole
		budget -= part.cost
		slow := missed > whole && time.Since(begin) > followTime
		if budget <= 0 || !part.more || slow {
			break
		}
	}
	return page, r.load(ctx, &page, all)
}

// loadAtOnce bounds the memory of a page whose timers have large bodies, and is the usual limit.
const loadAtOnce = 100

// load reads the timers of a page. It ends the page before the timer whose bodies do not fit.
func (r *search) load(ctx context.Context, page *store.SearchPage, all []match) error {
	bytes := 0
	for part := range slices.Chunk(all, loadAtOnce) {
		rows := make([]timers.Row, len(part))
		for i := range part {
			rows[i] = part[i].row
		}
		ts, err := r.store.timers.CompleteAll(ctx, r.c, rows, nil)
		if err != nil {
			return err
		}
		var n int
		n, bytes = r.Fitting(ts, bytes)
		page.Timers = append(page.Timers, ts[:n]...)
		if n < len(ts) {
			page.More, page.Next = true, all[len(page.Timers)-1].position()
			return nil
		}
	}
	return nil
}

func idsOfMatches(all []match) []timer.ID {
	ids := make([]timer.ID, len(all))
	for i := range all {
		ids[i] = timer.ID(all[i].row.ID)
	}
	return ids
}
