package history

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// Limits of what one request examines, however few fires match.
const (
	ScanLimit = 10_000 // fires, per statement
	maxScans  = 8      // statements
)

type listInput struct {
	param.PathAppParam
	param.PageParam
	FilterParam
	FinishedFrom string `query:"finished_from" maxLength:"40" doc:"Only fires that finished at this instant (RFC 3339) or later."`
	FinishedTo   string `query:"finished_to" maxLength:"40" doc:"Only fires that finished before this instant (RFC 3339)."`
	Order        string `query:"order" enum:"newest,oldest" default:"newest" doc:"newest: those that finished last come first. oldest: those that finished first come first."`
}

type listOutput struct{ Body listBody }

type listBody struct {
	Items      []AppFireBody `json:"items" nullable:"false"`
	NextCursor string        `json:"next_cursor" doc:"Pass it as cursor, with the same selection and order, for the next page; empty on the last one. A page may have fewer items than limit, or none, and still a next_cursor: a request examines a limited number of fires."`
}

// listFires reads pages of the store until the page is full, the app has no more fires, or enough
// were examined. A fire that is recorded meanwhile may be on no page: its place may be passed.
func (s *Resource) listFires(ctx context.Context, in *listInput) (*listOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	f, err := s.filter(ctx, in.App, &in.FilterParam)
	if err != nil {
		return nil, err
	}
	q := store.OutcomeQuery{
		OutcomeFilter: f.OutcomeFilter,
		App:           in.App,
		Ascending:     in.Order == "oldest",
		ScanLimit:     ScanLimit,
	}
	if q.FromMS, q.ToMS, err = s.finished(in.FinishedFrom, in.FinishedTo); err != nil {
		return nil, err
	}
	if in.Cursor != "" {
		if q.After, err = decodePosition(in.Cursor); err != nil {
			return nil, err
		}
	}
	out := &listOutput{listBody{Items: make([]AppFireBody, 0, min(in.Limit, store.MaxBatch))}}
	labels, names := newLabelMatcher(s.Store, f.labels), newNamer(s.Store)
	for range maxScans {
		left := in.Limit - len(out.Body.Items)
		if q.Limit = min(left, store.MaxBatch); len(f.labels) > 0 {
			q.Limit = store.MaxBatch
		}
		page, err := s.Store.Outcomes(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing fires: %w", err)
		}
		found, err := labels.keep(ctx, page.Outcomes)
		if err != nil {
			return nil, err
		}
		q.After = page.Next
		if len(found) > left {
			found = found[:left]
			q.After = store.PositionOf(&found[left-1])
		}
		shown, err := names.show(ctx, found)
		if err != nil {
			return nil, err
		}
		out.Body.Items = append(out.Body.Items, shown...)
		if q.After == (store.OutcomePosition{}) {
			return out, nil
		}
		if len(out.Body.Items) == in.Limit {
			break
		}
	}
	out.Body.NextCursor = encodePosition(q.After)
	return out, nil
}

// finished reads the range in which fires finished; 0 is no bound.
func (s *Resource) finished(from, to string) (fromMS, toMS int64, err error) {
	var r input.BodyReader
	if at := r.Instant("query.finished_from", from); at != nil {
		fromMS = input.CeilMS(*at)
	}
	if at := r.Instant("query.finished_to", to); at != nil {
		if toMS = input.EndMS(*at); from != "" && input.CeilMS(*at) <= fromMS {
			r.Invalid("query.finished_to", fmt.Sprintf(
				"expected an instant later than finished_from (%q), found %q", from, to))
		}
	}
	if len(r.Errs) > 0 {
		return 0, 0, s.Problems.Invalid(r.Errs) //nolint:wrapcheck // it is the answer
	}
	return fromMS, toMS, nil
}

// encodePosition returns the cursor, and the id of the event, of a place among an app's fires.
func encodePosition(p store.OutcomePosition) string {
	return input.EncodeCursor(input.AppFiresCursor, fmt.Sprintf("%d.%s", p.FinishedMS, p.FireID))
}

func decodePosition(cursor string) (p store.OutcomePosition, err error) {
	text, err := input.DecodeCursor(input.AppFiresCursor, cursor)
	if err != nil {
		return p, err //nolint:wrapcheck // it names the parameter
	}
	finished, fire, _ := strings.Cut(text, ".")
	p.FinishedMS, err = strconv.ParseInt(finished, 10, 64)
	if err == nil &&
		fire != p.FireID.String() { // a stream has positions before all fires of an instant
		p.FireID, err = timer.ParseFireID(fire)
	}
	if err != nil || p.FinishedMS <= 0 {
		return store.OutcomePosition{}, input.NotACursor() //nolint:wrapcheck // as above
	}
	return p, nil
}
