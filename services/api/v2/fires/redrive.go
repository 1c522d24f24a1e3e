package fires

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// Limits of a redrive.
const (
	maxRedrive    = 10_000 // fires per request
	maxFiresNamed = 500
	redriveSample = 20
)

type redriveInput struct {
	param.PathAppParam
	param.DryRunParam
	param.KeyHeader
	Body redriveBody
}

type redriveBody struct {
	Timer   string   `json:"timer,omitempty" pattern:"^[0-9]{1,16}$" doc:"Only fires of this timer."`
	Fires   []string `json:"fires,omitempty" nullable:"false" minItems:"1" maxItems:"500" doc:"Only these fires, by their ids. At least one: an empty list does not select all."`
	From    string   `json:"from,omitempty" format:"date-time" doc:"Only fires due at this instant or later."`
	To      string   `json:"to,omitempty" format:"date-time" doc:"Only fires due before this instant."`
	Failure string   `json:"failure,omitempty" minLength:"1" doc:"Only fires whose last attempt had this failure: timeout, connect, status and so on."`
	Again   bool     `json:"again,omitempty" doc:"Also fires that were redriven before."`
	DryRun  bool     `json:"dry_run,omitempty" doc:"The same as the parameter."`
	Limit   int      `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"10000" doc:"Maximum number of fires; those that ended first are taken."`
	Cursor  string   `json:"cursor,omitempty" minLength:"1" doc:"The next_cursor of the request before, with the same selection: goes on after it, in the same series, and leaves out the fires that it created."`
}

type redriveOutput struct{ Body redrivenBody }

type redrivenBody struct {
	DryRun     bool       `json:"dry_run"`
	Series     string     `json:"series,omitempty" doc:"Series of the new fires: their id is <timer>-<due>-<series>."`
	Count      int64      `json:"count" doc:"Failed fires that were selected. Each was created again, unless it was a dry run."`
	More       bool       `json:"more" doc:"There are more than the limit, or than one request has time for."`
	NextCursor string     `json:"next_cursor" doc:"Pass it as cursor for the others; empty if there are none."`
	Sample     []FireBody `json:"sample" nullable:"false" doc:"The first 20 selected fires."`
}

// redriveFires creates failed fires again, page by page, with one transaction per page. If it ends
// halfway, the pages before are redriven. Repeated, it continues after them, because redriven fires
// are left out. Of two at once, the store lets one redrive each fire.
//
// What it creates may fail at once. The store selects no fires of the request's own series, and a
// request with a cursor continues the series, so neither redrives its own fires.
//
// Under an idempotency key the series is the same each time, so nothing is created twice. The store
// keeps when the first request began. A repetition creates what the first has not, and nothing that
// failed since.
func (s *Resource) redriveFires(ctx context.Context, in *redriveInput) (*redriveOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	b := &in.Body
	b.DryRun = b.DryRun || in.DryRun
	selected := selection{
		timer: b.Timer, fires: b.Fires, from: b.From, to: b.To, failure: b.Failure, again: b.Again,
	}
	q, err := s.query(in.App, "", &selected)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, in, &q); err != nil {
		return nil, err
	}
	out := redrivenBody{DryRun: in.Body.DryRun, Sample: []FireBody{}}
	if !out.DryRun {
		out.Series = q.Series.String()
	}
	defer func() { // also after an error: the pages before it are redriven
		if !out.DryRun && out.Count > 0 {
			s.metrics.redriven.Add(float64(out.Count))
		}
	}()
	for first, left := true, in.Body.Limit; left > 0; first = false {
		if !first && deadlineNear(ctx) {
			out.More = true
			break
		}
		q.Limit = min(left, store.MaxBatch)
		outcomes, more, err := s.redrivePage(ctx, q, out.DryRun)
		if err != nil {
			return nil, fmt.Errorf("redriving fires: %w", err)
		}
		for i := range outcomes {
			if len(out.Sample) < redriveSample {
				out.Sample = append(out.Sample, ShowOutcome(&outcomes[i]))
			}
		}
		n := len(outcomes)
		out.Count += int64(n)
		left -= n
		if out.More = more; !more || n == 0 {
			break
		}
		q.After, q.AfterFinishedMS = outcomes[n-1].FireID, outcomes[n-1].FinishedMS
	}
	if out.Count == 0 || out.DryRun { // perhaps there is no such app, or it takes no fires
		app, err := s.Store.App(ctx, in.App)
		if err == nil && app.Frozen && out.Count > 0 {
			err = store.FrozenConflict(in.App)
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
	}
	if out.More && q.AfterFinishedMS != 0 {
		out.NextCursor = redriveCursor(&q)
	}
	return &redriveOutput{out}, nil
}

// begin sets the series of a request, and where it goes on.
func (s *Resource) begin(ctx context.Context, in *redriveInput, q *store.DeadLetterQuery) error {
	if in.Body.Cursor != "" {
		return continueRedrive(in.Body.Cursor, q, s.Now())
	}
	q.Series = s.IDs.Next()
	if in.Key == "" {
		return nil
	}
	if in.Body.DryRun {
		return nil
	}
	// The first request's series is kept under the key, and tells when that was. Two requests at once
	// both read the one of them that came first, and the other one is the repetition.
	key := param.KeyOf("redrive "+in.App, q.Timer, in.Key)
	kept, err := s.Store.PutIfAbsent(ctx, in.App, key, nil, int64(q.Series))
	if timer.CodeOf(err) == timer.CodeNotFound {
		return nil // an unknown app has no dead letters
	}
	if err == nil && timer.ID(kept) != q.Series {
		q.Series = timer.ID(kept)
		q.BegunMS = q.Series.TimeMS()
	}
	return err //nolint:wrapcheck // the store says what it was doing
}

// redriveCursor encodes the series and the position after which a redrive goes on.
func redriveCursor(q *store.DeadLetterQuery) string {
	return input.EncodeCursor(
		input.RedriveCursor,
		fmt.Sprintf("%s.%s", q.Series, positionOf(q)),
	)
}

var errLaterSeries = errors.New("the series is of a later instant")

// continueRedrive reads the cursor of a redrive. Executors take the series for the instant of the
// request, so one that is made up and lies in the future is refused.
func continueRedrive(cursor string, q *store.DeadLetterQuery, now time.Time) error {
	text, err := input.DecodeCursor(input.RedriveCursor, cursor)
	series, position, _ := strings.Cut(text, ".")
	if err == nil {
		q.Series, err = timer.ParseID(series)
	}
	if err == nil && q.Series.TimeMS() > now.Add(time.Minute).UnixMilli() {
		err = errLaterSeries // its fires would be called then
	}
	if err == nil {
		q.After, q.AfterFinishedMS, err = parsePosition(position)
	}
	if err != nil || q.Series == 0 {
		return timer.Invalid(
			"cursor",
			"expected the next_cursor of a redrive, found another text: pass it as it was",
		)
	}
	return nil
}

// redrivePage redrives one page, or only reads it, and returns what it selected.
func (s *Resource) redrivePage(
	ctx context.Context,
	q store.DeadLetterQuery,
	dryRun bool,
) (outcomes []timer.Outcome, more bool, err error) {
	if dryRun {
		page, err := s.Store.DeadLetters(ctx, q)
		for i := range page.DeadLetters {
			outcomes = append(outcomes, page.DeadLetters[i].Outcome)
		}
		return outcomes, page.More, err
	}
	page, err := s.Store.Redrive(ctx, q)
	s.Writer.Dispatch(ctx, page.Fires) // also of a commit in doubt: see store.Timers
	return page.Outcomes, page.More, err
}

// deadlineNear returns whether too little time is left for another page.
func deadlineNear(ctx context.Context) bool {
	const page = 3 * time.Second
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < page
}
