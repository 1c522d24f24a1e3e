package timers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type listTimersInput struct {
	param.AppParam
	FilterParam
	Sort  string `query:"sort" enum:"id,name,next_due,last_fired" default:"id" doc:"The order."`
	Order string `query:"order" enum:"asc,desc" default:"asc" doc:"The direction. Timers without a next_due, or without a last_fired, come last in both."`
	Count bool   `query:"count" doc:"Answer total, too. A page of a large app takes longer with it."`
	param.PageParam
}

type timersOutput struct{ Body timersBody }

// maxTotal is how far timers are counted.
const maxTotal = 10_000

// maxPageBodies bounds the memory of a page. A timer may have bodies of some megabytes.
const maxPageBodies = 4 << 20

func (s *Resource) listTimers(ctx context.Context, in *listTimersInput) (*timersOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	f, err := s.filter(in.App, &in.FilterParam)
	if err != nil {
		return nil, err
	}
	q := store.SearchQuery{
		Filter:  f,
		Desc:    in.Order == "desc",
		Limit:   in.Limit,
		NextDue: s.Upcoming.NextDue,

		MaxBodyBytes: maxPageBodies,
	}
	if in.Sort != "id" {
		q.Sort = store.Sort(in.Sort)
	}
	if q.After, err = in.after(); err != nil {
		return nil, err
	}
	page, count, err := s.search(ctx, in, &q)
	if err != nil {
		return nil, asParameter(err)
	}
	out := &timersOutput{}
	if in.Count {
		out.Body.Total, out.Body.TotalIsMinimum = &count.N, count.Minimum
	}
	if page.More {
		out.Body.NextCursor = in.cursor(page.Next)
	}
	out.Body.Items, err = s.showAll(ctx, page.Timers)
	return out, err
}

// asParameter names the parameter of a query that the store refuses.
func asParameter(err error) error {
	var e *timer.Error
	if errors.As(err, &e) && e.Code == timer.CodeInvalid && e.Field == "sort" {
		return timer.Invalid("query.sort", e.Msg)
	}
	return err
}

// search returns a page and, if it is wanted, the count.
func (s *Resource) search(
	ctx context.Context,
	in *listTimersInput,
	q *store.SearchQuery,
) (page store.SearchPage, count store.SearchCount, err error) {
	if in.Name != "" {
		page.Timers, err = s.named(ctx, in.Name, q)
		return page, store.SearchCount{N: len(page.Timers)}, err
	}
	if page, err = s.Store.Search(ctx, *q); err != nil || !in.Count {
		return page, count, err //nolint:wrapcheck // the store says what it was doing
	}
	all := *q
	all.Limit = maxTotal
	count, err = s.Store.Count(ctx, all)
	return page, count, err //nolint:wrapcheck // the store says what it was doing
}

// named returns the timer of a name if the rest of the filter selects it. There is at most one, so a
// cursor is past it.
func (s *Resource) named(
	ctx context.Context,
	name string,
	q *store.SearchQuery,
) ([]timer.Timer, error) {
	t, err := s.Store.TimerByName(ctx, q.App, name)
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		return nil, nil
	case err != nil:
		return nil, err //nolint:wrapcheck // the store says what it was doing
	case !q.SelectsDefinition(&t) || q.After != (store.SearchPosition{}):
		return nil, nil
	}
	if q.ByDue() {
		if due, err := q.NextDue(ctx, &t); err != nil || !q.SelectsDue(due) {
			return nil, err
		}
	}
	if q.LastOutcome != "" {
		last, err := s.Store.LastOutcomes(ctx, []timer.ID{t.ID})
		kind := store.OutcomeNone
		if o, ok := last[t.ID]; ok {
			kind = o.Kind
		}
		if err != nil || kind != q.LastOutcome {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
	}
	return []timer.Timer{t}, nil
}

// showAll converts the timers of a page.
func (s *Resource) showAll(ctx context.Context, ts []timer.Timer) ([]timerBody, error) {
	ids := make([]timer.ID, len(ts))
	for i := range ts {
		ids[i] = ts[i].ID
	}
	last, err := s.Store.LastOutcomes(ctx, ids)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	items := make([]timerBody, len(ts))
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(nextDueConcurrency)
	for i := range ts {
		eg.Go(func() error {
			one, err := s.show(ctx, &ts[i])
			if err != nil {
				return err
			}
			items[i] = one.Body
			items[i].setLast(last[ts[i].ID])
			return nil
		})
	}
	return items, eg.Wait() //nolint:wrapcheck // of show
}

// nextDueConcurrency limits how many timers of a page are read at once. The next due instant of
// some is known only from their fires.
const nextDueConcurrency = 8

// hash identifies the query of a cursor.
func (in *listTimersInput) hash() string {
	const length = 8
	return hex.EncodeToString(
		input.Hash([]any{in.App, in.FilterParam, in.Sort, in.Order})[:length],
	)
}

// cursor encodes a position. A plain list has the cursors of API versions before 2.9.0. Others have
// the hash of their query.
func (in *listTimersInput) cursor(p store.SearchPosition) string {
	if in.isPlain() {
		return input.EncodeCursor(input.TimersCursor, p.ID.String())
	}
	return input.EncodeCursor(
		input.TimersCursor,
		fmt.Sprintf("%s.%d.%d.%s", in.hash(), p.ID, p.AtMS, p.Name),
	)
}

// after decodes the cursor.
func (in *listTimersInput) after() (p store.SearchPosition, err error) {
	if in.Cursor == "" {
		return p, nil
	}
	position, err := input.DecodeCursor(input.TimersCursor, in.Cursor)
	if err != nil {
		return p, err
	}
	if in.isPlain() {
		if p.ID, err = timer.ParseID(position); err != nil {
			return p, otherQuery()
		}
		return p, nil
	}
	const fields = 4
	parts := strings.SplitN(position, ".", fields)
	if len(parts) != fields || parts[0] != in.hash() {
		return p, otherQuery()
	}
	id, badID := strconv.ParseInt(parts[1], 10, 64)
	p.AtMS, err = strconv.ParseInt(parts[2], 10, 64)
	if badID != nil || err != nil || id < 0 {
		return p, input.NotACursor()
	}
	p.ID, p.Name = timer.ID(id), parts[3]
	return p, nil
}

func otherQuery() error {
	return timer.Invalid(
		"query.cursor",
		"expected the next_cursor of a page of this list, found one of another query: pass it with the parameters of that page",
	)
}
