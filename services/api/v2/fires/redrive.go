package fires

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Key  string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"Repeating the request under the same key within a day creates the same fires, and none for what failed since. Another selection under it is a conflict; cursor and limit may differ."`
	Body redriveBody
}

type redriveBody struct {
	Timer   string   `json:"timer,omitempty" minLength:"1" maxLength:"128" doc:"Only fires of this timer: its id, or its name."`
	Fires   []string `json:"fires,omitempty" nullable:"false" minItems:"1" maxItems:"500" doc:"Only these fires, by their ids. At least one: an empty list does not select all. A fire whose timer was deleted is an error: nothing is redriven then."`
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
	More       bool       `json:"more" doc:"There may be more than the limit, or than one request has time for."`
	NextCursor string     `json:"next_cursor" doc:"Pass it as cursor for the others; empty if there are none. Where few failed fires match, count may be 0, and there are others."`
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
// failed since. A dry run looks the key up, too, and shows the same. It keeps no key.
func (s *Resource) redriveFires(ctx context.Context, in *redriveInput) (*redriveOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	b := &in.Body
	if b.DryRun = b.DryRun || in.DryRun; b.DryRun {
		ctx = store.WithDryRun(ctx) // the body's field marks nothing
	}
	selected := selection{
		timer: b.Timer, fires: b.Fires, from: b.From, to: b.To, failure: b.Failure, again: b.Again,
	}
	q, err := s.query(ctx, in.App, "", &selected)
	if err != nil {
		return nil, err
	}
	if err := s.refuseDeleted(ctx, in.App, q.Fires); err != nil {
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
	toMake := 0 // of a dry run
	for first, left := true, in.Body.Limit; left > 0; first = false {
		if !first && deadlineNear(ctx) {
			out.More = true
			break
		}
		q.Limit = min(left, store.MaxBatch)
		outcomes, next, err := s.redrivePage(ctx, q, out.DryRun)
		if err != nil {
			return nil, fmt.Errorf("redriving fires: %w", err)
		}
		for i := range outcomes {
			if outcomes[i].Redriven != int64(q.Series) {
				toMake++
			}
			if len(out.Sample) < redriveSample {
				out.Sample = append(out.Sample, ShowOutcome(&outcomes[i]))
			}
		}
		out.Count += int64(len(outcomes))
		left -= len(outcomes)
		if out.More = next != (store.OutcomePosition{}); !out.More {
			break
		}
		q.After = next
	}
	if out.Count == 0 || out.DryRun { // perhaps there is no such app, or it takes no fires
		app, err := s.Store.App(ctx, in.App)
		if err == nil && app.Frozen && toMake > 0 {
			err = store.FrozenConflict(in.App)
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
	}
	if out.More {
		out.NextCursor = redriveCursor(&q)
	}
	return &redriveOutput{out}, nil
}

// refuseDeleted refuses fires of the app whose timers were deleted. The store leaves them out, and the
// caller would not learn why. One that is deleted meanwhile is left out.
func (s *Resource) refuseDeleted(ctx context.Context, app string, fires []timer.FireID) error {
	var ids []timer.ID
	for i := range fires {
		ids = append(ids, fires[i].Timer)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	states, err := s.Store.States(ctx, slices.Compact(ids))
	if err != nil {
		return fmt.Errorf("reading the timers of fires: %w", err)
	}
	names := make(map[timer.ID]string)
	for i := range states {
		if st := &states[i]; st.App == app && st.Status == timer.StatusDeleted {
			names[st.ID] = st.Name
		}
	}
	var r input.BodyReader
	for i := range fires {
		if name, deleted := names[fires[i].Timer]; deleted {
			r.Invalid(fmt.Sprintf("fires[%d]", i), fmt.Sprintf(
				"expected a fire of a timer that there is, found %s, whose timer %q was deleted: "+
					"leave it out; %s", fires[i], input.Clip(name), ofDeleted,
			))
		}
	}
	if len(r.Errs) > 0 {
		return s.Problems.Invalid(r.Errs)
	}
	return nil
}

// begin sets the series of a request, where it goes on, and when its first request began.
//
// A key stands for a selection and its series. Requests that go on with a cursor may have the key of
// the first one. So the key keeps no position: what it keeps for each cursor is when that request
// began, as for a request of its own.
func (s *Resource) begin(ctx context.Context, in *redriveInput, q *store.DeadLetterQuery) error {
	began := s.IDs.Next()
	q.Series = began
	if in.Body.Cursor != "" {
		if err := continueRedrive(in.Body.Cursor, q, s.Now()); err != nil {
			return err
		}
	}
	if in.Key == "" {
		return nil
	}
	// The first request's series is kept under the key, and tells when that was. Two requests at once
	// both read the one of them that came first, and the other one is the repetition.
	hash := selectionHash(q)
	kept, err := param.KeepKey(
		ctx, s.Store, in.App, param.KeyOf("redrive "+in.App, 0, in.Key), hash, int64(q.Series))
	if err == nil && in.Body.Cursor != "" {
		key := param.KeyOf("redrive "+in.App+" from "+in.Body.Cursor, 0, in.Key)
		kept, err = param.KeepKey(ctx, s.Store, in.App, key, hash, int64(began))
	}
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		return nil // an unknown app has no dead letters
	case err != nil:
		return err //nolint:wrapcheck // the store says what it was doing
	case timer.ID(kept) == began:
		return nil
	case in.Body.Cursor == "":
		q.Series = timer.ID(kept)
	}
	q.BegunMS = timer.ID(kept).TimeMS()
	return nil
}

// selectionHash returns the hash that distinguishes selections under one idempotency key. It hashes
// the meaning, so neither the order of fires nor the form of an instant matters.
func selectionHash(q *store.DeadLetterQuery) []byte {
	fires := slices.Clone(q.Fires)
	slices.SortFunc(fires, timer.CompareFireIDs)
	return input.Hash(struct {
		Timer        timer.ID
		Fires        []timer.FireID
		FromMS, ToMS int64
		Failure      timer.Failure
		Again        bool
	}{q.Timer, slices.Compact(fires), q.FromMS, q.ToMS, q.Failure, q.IncludeRedriven})
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
		q.After, err = parsePosition(position)
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
) (outcomes []timer.Outcome, next store.OutcomePosition, err error) {
	if dryRun {
		page, err := s.Store.DeadLetters(ctx, q)
		for i := range page.DeadLetters {
			outcomes = append(outcomes, page.DeadLetters[i].Outcome)
		}
		return outcomes, page.Next, err
	}
	page, err := s.Store.Redrive(ctx, q)
	s.Writer.Dispatch(ctx, page.Fires) // also of a commit in doubt: see store.Timers
	return page.Outcomes, page.Next, err
}

// deadlineNear returns whether too little time is left for another page.
func deadlineNear(ctx context.Context) bool {
	const page = 3 * time.Second
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < page
}
