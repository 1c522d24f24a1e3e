package history

import (
	"context"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Outcomes reads along the index by app, or along failed_outcomes if only failed fires are wanted.
// The first statement finds where the scan ends, from keys alone, and the second the matching fires
// up to there. A fire that is recorded in between may be returned or not. It takes no locks.
func (s *Reader) Outcomes(
	ctx context.Context,
	query store.OutcomeQuery,
) (page store.OutcomePage, err error) {
	h, err := s.appHistory(ctx, query)
	if err != nil || h.appID == 0 {
		return page, err
	}
	err = s.db.Read(
		ctx,
		"reading an app's finished fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			page = store.OutcomePage{}
			end, err := h.scanEnd(ctx, c)
			if err != nil {
				return err
			}
			var rows []OutcomeRow
			if err := s.db.SelectAll(ctx, c, &rows, h.matching(end)); err != nil {
				return err
			}
			for i := range rows {
				page.Outcomes = append(page.Outcomes, rows[i].Outcome())
			}
			if len(rows) == query.Limit {
				page.Next = store.PositionOf(&page.Outcomes[len(rows)-1])
			} else if len(end) > 0 {
				page.Next = end[0].Position()
			}
			return nil
		},
	)
	return page, err
}

// appHistory is one read of an app's finished fires.
type appHistory struct {
	store *Reader
	q     store.OutcomeQuery
	appID int64 // 0: the app does not exist
	// failed is true if failed_outcomes has all keys that may match.
	failed bool
	// row is the alias of the table with the columns that are filtered. The keys are in k, which is
	// the same table or failed_outcomes.
	row string
}

func (s *Reader) appHistory(ctx context.Context, q store.OutcomeQuery) (*appHistory, error) {
	appID, err := s.apps.ID(ctx, q.App)
	h := &appHistory{store: s, q: q, appID: appID, row: "k"}
	if slices.Equal(q.Kinds, []timer.OutcomeKind{timer.Failed}) {
		h.failed, h.row = true, "o"
	}
	return h, err
}

// OutcomeKeyRow is a row of the primary key of an outcome.
type OutcomeKeyRow struct {
	FinishedMS int64 `db:"finished_ms"`
	sqldb.FireIDRow
}

// Position returns the place of the outcome.
func (r *OutcomeKeyRow) Position() store.OutcomePosition {
	return store.OutcomePosition{FinishedMS: r.FinishedMS, FireID: r.FireID()}
}

// scanEnd returns the last key that the scan examines, none if it examines all.
func (h *appHistory) scanEnd(
	ctx context.Context,
	c sqlx.QueryerContext,
) (end []OutcomeKeyRow, err error) {
	if h.q.Limit > 0 && h.q.Limit <= h.q.ScanLimit && h.selectsAll() {
		return nil, nil // the page is no longer than the scan
	}
	q := sqldb.Stmt("SELECT k.finished_ms,k.timer_id,k.due_ms,k.series FROM ")
	if h.failed {
		q.Add("failed_outcomes k" + h.store.db.Dialect.ByPrimary)
	} else {
		q.Add("outcomes k" + h.store.db.Dialect.OutcomesByApp)
	}
	h.bounds(q)
	q.Add(h.order()).Add(" LIMIT 1 OFFSET ").Int(int64(h.q.ScanLimit - 1))
	err = h.store.db.SelectAll(ctx, c, &end, q)
	return end, err
}

// selectsAll returns whether every fire of the app matches, apart from when it finished.
func (h *appHistory) selectsAll() bool {
	f := &h.q.OutcomeFilter
	return len(f.Kinds)+len(f.Reasons)+len(f.Causes)+len(f.Timers) == 0 &&
		f.DueFromMS == 0 && f.DueToMS == 0 && f.MinLatenessMS == nil && f.MaxLatenessMS == nil
}

// matching selects the matching fires from the position up to the end.
func (h *appHistory) matching(end []OutcomeKeyRow) *sqldb.Statement {
	q := sqldb.Stmt(
		"SELECT " + h.row + "." + strings.ReplaceAll(OutcomeColumns, ",", ","+h.row+".") +
			" FROM ",
	)
	h.fromRows(q)
	if len(end) > 0 {
		operator := ">="
		if h.q.Ascending {
			operator = "<="
		}
		h.compare(q, operator, end[0].Position())
	}
	h.filter(q)
	return q.Add(h.order()).Add(" LIMIT ").Int(int64(h.q.Limit))
}

// fromRows adds the tables with all columns, and the bounds of the query.
func (h *appHistory) fromRows(q *sqldb.Statement) {
	d := h.store.db.Dialect
	if h.failed {
		q.Add("failed_outcomes k" + d.ByPrimary + d.JoinOrdered + "outcomes o" + d.ByPrimary +
			" ON o.finished_ms=k.finished_ms AND o.timer_id=k.timer_id AND " +
			"o.due_ms=k.due_ms AND o.series=k.series")
	} else {
		q.Add("outcomes k" + d.OutcomesByApp)
	}
	h.bounds(q)
}

// bounds adds the app, when the fires finished, and the position.
func (h *appHistory) bounds(q *sqldb.Statement) {
	q.Add(" WHERE k.app_id=").Int(h.appID)
	from, to := h.q.FromMS, h.q.ToMS
	if after := h.q.After; after != (store.OutcomePosition{}) {
		// The range says the same again: not every optimizer sees it in the comparison.
		if h.q.Ascending {
			from = max(from, after.FinishedMS)
			h.compare(q, ">", after)
		} else {
			if to == 0 || after.FinishedMS < to {
				to = after.FinishedMS + 1
			}
			h.compare(q, "<", after)
		}
	}
	q.Add(" AND k.finished_ms>=").Int(from)
	if to != 0 {
		q.Add(" AND k.finished_ms<").Int(to)
	}
}

func (h *appHistory) compare(q *sqldb.Statement, operator string, p store.OutcomePosition) {
	q.Add(" AND ")
	h.store.db.Dialect.CompareInts(
		q,
		operator,
		[]string{"k.finished_ms", "k.timer_id", "k.due_ms", "k.series"},
		[]int64{p.FinishedMS, int64(p.Timer), p.DueMS, p.Series},
	)
}

func (h *appHistory) order() string {
	if h.q.Ascending {
		return " ORDER BY k.finished_ms,k.timer_id,k.due_ms,k.series"
	}
	return " ORDER BY k.finished_ms DESC,k.timer_id DESC,k.due_ms DESC,k.series DESC"
}

// filter adds the conditions of the query. Those about keys are checked in the index.
func (h *appHistory) filter(q *sqldb.Statement) {
	f := &h.q.OutcomeFilter
	if len(f.Timers) > 0 {
		q.Add(" AND k.timer_id").IDList(f.Timers)
	}
	if f.DueToMS != 0 {
		q.Add(" AND k.due_ms<").Int(f.DueToMS)
	}
	if f.DueFromMS != 0 {
		q.Add(" AND " + h.row + ".until_ms>=").Int(f.DueFromMS)
	}
	words(q, h.row+".kind", f.Kinds)
	words(q, h.row+".reason", f.Reasons)
	if len(f.Causes) > 0 {
		q.Add(" AND " + h.row + ".cause IN (")
		for i, c := range f.Causes {
			if i > 0 {
				q.Add(",")
			}
			q.Int(int64(c))
		}
		q.Add(")")
	}
	if f.MinLatenessMS != nil || f.MaxLatenessMS != nil {
		q.Add(" AND " + h.row + ".attempts>0")
	}
	if f.MinLatenessMS != nil {
		q.Add(" AND " + h.row + ".lateness_ms>=").Int(*f.MinLatenessMS)
	}
	if f.MaxLatenessMS != nil {
		q.Add(" AND " + h.row + ".lateness_ms<=").Int(*f.MaxLatenessMS)
	}
}

// words adds a condition that a column has one of the texts; no text is no condition.
func words[T ~string](q *sqldb.Statement, column string, texts []T) {
	if len(texts) == 0 {
		return
	}
	q.Add(" AND " + column + " IN (")
	for i, text := range texts {
		if i > 0 {
			q.Add(",")
		}
		q.Bind(string(text))
	}
	q.Add(")")
}
