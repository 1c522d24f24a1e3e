package fires

import (
	"context"
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
	DryRun  bool     `json:"dry_run,omitempty" doc:"Create nothing; answer what would be created."`
	Limit   int      `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"10000" doc:"Maximum number of fires; those that ended first are taken."`
}

type redriveOutput struct{ Body redrivenBody }

type redrivenBody struct {
	DryRun bool       `json:"dry_run"`
	Series string     `json:"series,omitempty" doc:"Series of the new fires: their id is <timer>-<due>-<series>."`
	Count  int64      `json:"count" doc:"Failed fires that were selected. Each was created again, unless it was a dry run."`
	More   bool       `json:"more" doc:"There are more than the limit, or than one request has time for: repeat it."`
	Sample []FireBody `json:"sample" nullable:"false" doc:"The first 20 selected fires."`
}

// redriveFires creates failed fires again, page by page, with one transaction per page. If it ends
// halfway, the pages before are redriven. Repeated, it continues after them, because redriven fires
// are left out. Under an idempotency key the series is the same each time, so nothing is created
// twice.
func (s *Resource) redriveFires(ctx context.Context, in *redriveInput) (*redriveOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	q, err := s.readRedrive(in)
	if err != nil {
		return nil, err
	}
	series := s.IDs.Next()
	if in.Key != "" {
		series = timer.ID(param.SeriesOf(param.KeyOf("redrive "+in.App, q.Timer, in.Key)))
	}
	out := redrivenBody{DryRun: in.Body.DryRun, Sample: []FireBody{}}
	if !out.DryRun {
		out.Series = series.String()
	}
	defer func() { // also after an error: the pages before it are redriven
		if !out.DryRun && out.Count > 0 {
			s.metrics.redriven.Add(float64(out.Count))
			s.requestAck()
		}
	}()
	for first, left := true, in.Body.Limit; left > 0; first = false {
		if !first && deadlineNear(ctx) {
			out.More = true
			break
		}
		q.Limit = min(left, store.MaxBatch)
		page, err := s.Store.Redrive(ctx, q, series, out.DryRun)
		s.Writer.Dispatch(ctx, page.Fires) // also of a commit in doubt: see store.Timers
		if err != nil {
			return nil, fmt.Errorf("redriving fires: %w", err)
		}
		for i := range page.Outcomes {
			if len(out.Sample) < redriveSample {
				out.Sample = append(out.Sample, showOutcome(&page.Outcomes[i]))
			}
		}
		n := len(page.Outcomes)
		out.Count += int64(n)
		left -= n
		if out.More = page.More; !page.More || n == 0 {
			break
		}
		q.After, q.AfterFinishedMS = page.Outcomes[n-1].FireID, page.Outcomes[n-1].FinishedMS
	}
	return &redriveOutput{out}, nil
}

// deadlineNear returns whether too little time is left for another page.
func deadlineNear(ctx context.Context) bool {
	const page = 3 * time.Second
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < page
}

func (s *Resource) readRedrive(in *redriveInput) (store.RedriveQuery, error) {
	b := &in.Body
	q := store.RedriveQuery{
		App:             in.App,
		IncludeRedriven: b.Again,
		Failure:         timer.Failure(b.Failure),
	}
	var r input.BodyReader
	if b.Timer != "" {
		id, err := timer.ParseID(b.Timer)
		if err != nil {
			return q, timer.NotFound("timer", b.Timer)
		}
		q.Timer = id
	}
	for i, text := range b.Fires {
		id, err := timer.ParseFireID(text)
		if err != nil {
			r.Invalid(fmt.Sprintf("fires[%d]", i), badFireIDText(text))
		}
		q.Fires = append(q.Fires, id)
	}
	if at := r.Instant("from", b.From); at != nil {
		q.FromMS = input.CeilMS(*at)
	}
	if at := r.Instant("to", b.To); at != nil {
		if q.ToMS = input.CeilMS(*at); q.ToMS <= q.FromMS {
			r.Invalid(
				"to",
				fmt.Sprintf("expected an instant later than from (%q), found %q", b.From, b.To),
			)
		}
	}
	if b.Failure != "" && !slices.Contains(timer.Failures(), q.Failure) {
		r.Invalid(
			"failure",
			fmt.Sprintf("expected one of %s, found %q", failureNames(), input.Clip(b.Failure)),
		)
	}
	if len(r.Errs) > 0 {
		return q, s.Problems.Invalid(r.Errs)
	}
	return q, nil
}

// failureNames lists the classes of failures.
func failureNames() string {
	var names []string
	for _, f := range timer.Failures() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}
