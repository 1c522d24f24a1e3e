package fires

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
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
// are left out. Of two at once, the store lets one redrive each fire. Under an idempotency key the
// series is the same each time, so nothing is created twice.
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
	q.Series = s.IDs.Next()
	if in.Key != "" {
		q.Series = timer.ID(param.SeriesOf(param.KeyOf("redrive "+in.App, q.Timer, in.Key)))
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
				out.Sample = append(out.Sample, showOutcome(&outcomes[i]))
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
	return &redriveOutput{out}, nil
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
