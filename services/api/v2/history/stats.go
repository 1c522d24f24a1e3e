package history

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// Limits of the fires that one request counts. Counting in the store is cheap; labels are compared
// here, fire by fire.
const (
	countScan    = 50_000 // fires, per statement
	maxCount     = 6      // statements
	maxLabelRows = 40     // pages of store.MaxBatch fires
	// countFor is how long a request counts at most. It is well below the timeout of a request.
	countFor = 4 * time.Second
)

// maxSteps limits the steps of one answer.
const maxSteps = 1500

type statsInput struct {
	param.PathAppParam
	FilterParam
	From string `query:"from" maxLength:"40" doc:"Count fires that finished at this instant (RFC 3339) or later. It is rounded down to a step. By default an hour before to."`
	To   string `query:"to" maxLength:"40" doc:"Count fires that finished before this instant (RFC 3339). By default now."`
	Step string `query:"step" enum:"1m,15m,1h" default:"1m" doc:"1m: count by the minute. 15m: count by the quarter of an hour, which divides the hours of each time zone of today. 1h: count by the hour in UTC. A range has at most 1500 steps."`
}

type statsOutput struct{ Body statsBody }

type statsBody struct {
	From         string      `json:"from" format:"date-time" doc:"Begin of the first step."`
	To           string      `json:"to" format:"date-time" doc:"End of the range, excluded."`
	Step         string      `json:"step" enum:"1m,15m,1h" doc:"1m: a minute. 15m: a quarter of an hour. 1h: an hour."`
	CompleteFrom string      `json:"complete_from" format:"date-time" doc:"The counts are complete from here on. It is from unless the answer is truncated."`
	Truncated    bool        `json:"truncated" doc:"The range has more fires than one request counts. Those that finished before complete_from are not counted: pass it as to for them."`
	Total        CountsBody  `json:"total" doc:"Of all steps."`
	Steps        []statsStep `json:"steps" nullable:"false" doc:"In order of time, without those in which no fire finished."`
}

type statsStep struct {
	Begin   string `json:"begin" format:"date-time"`
	Partial bool   `json:"partial,omitempty" doc:"complete_from lies within this step."`
	CountsBody
}

// CountsBody is how many fires ended how.
type CountsBody struct {
	Delivered int64            `json:"delivered"`
	Failed    int64            `json:"failed"`
	Skipped   int64            `json:"skipped" doc:"A skipped stretch counts every instant that it covers."`
	Reasons   map[string]int64 `json:"reasons,omitempty" doc:"Skipped and failed fires by their reason."`
	Lateness  *latenessBody    `json:"lateness,omitempty" doc:"Of the fires that were called, in milliseconds. Exact up to 63 ms, and at most 1/32 too great beyond."`
}

type latenessBody struct {
	P50MS int64 `json:"p50_ms"`
	P95MS int64 `json:"p95_ms"`
	P99MS int64 `json:"p99_ms"`
	MaxMS int64 `json:"max_ms"`
}

// statsRange is the range that a request asks for, in Unix ms.
type statsRange struct{ fromMS, toMS, stepMS int64 }

// stats counts from the latest fire back, so that what is not counted is the oldest.
func (s *Resource) stats(ctx context.Context, in *statsInput) (*statsOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	f, err := s.filter(ctx, in.App, &in.FilterParam)
	if err != nil {
		return nil, err
	}
	span, err := s.statsRange(in)
	if err != nil {
		return nil, err
	}
	c := &counter{
		steps:  map[int64]*counts{},
		total:  newCounts(),
		fromMS: span.toMS, // nothing is counted yet
		store:  s.Store,
		stepMS: span.stepMS,
	}
	q := store.OutcomeQuery{
		OutcomeFilter: f.OutcomeFilter,
		App:           in.App,
		FromMS:        span.fromMS,
		ToMS:          span.toMS,
	}
	err = s.count(ctx, func() error {
		if len(f.labels) > 0 {
			return c.countRows(ctx, q, newLabelMatcher(s.Store, f.labels))
		}
		return c.countGroups(ctx, q)
	})
	if err != nil {
		return nil, err
	}
	return &statsOutput{c.body(span, in.Step)}, nil
}

func (s *Resource) statsRange(in *statsInput) (span statsRange, err error) {
	var r input.BodyReader
	step, err := time.ParseDuration(in.Step)
	if err != nil {
		return span, fmt.Errorf("step %s: %w", in.Step, err)
	}
	to := s.Now()
	if at := r.Instant("query.to", in.To); at != nil {
		to = *at
	}
	from := to.Add(-time.Hour)
	if at := r.Instant("query.from", in.From); at != nil {
		from = *at
	}
	span = statsRange{toMS: input.CeilMS(to), stepMS: step.Milliseconds()}
	span.fromMS = from.UnixMilli() - from.UnixMilli()%span.stepMS
	switch {
	case len(r.Errs) > 0:
	case span.fromMS < 0 || !from.Before(to):
		r.Invalid("query.from", fmt.Sprintf(
			"expected an instant before to (%s), found %q", input.Due(span.toMS), in.From))
	case span.toMS-span.fromMS > maxSteps*span.stepMS:
		r.Invalid("query.step", fmt.Sprintf(
			"expected a range of at most %d steps of %s, found a longer one: ask for parts of it, or for longer steps",
			maxSteps,
			in.Step,
		))
	}
	if len(r.Errs) > 0 {
		return span, s.Problems.Invalid(r.Errs) //nolint:wrapcheck // it is the answer
	}
	return span, nil
}

// body shows what was counted.
func (c *counter) body(span statsRange, step string) statsBody {
	b := statsBody{
		From:         input.Due(span.fromMS),
		To:           input.Due(span.toMS),
		Step:         step,
		CompleteFrom: input.Due(c.fromMS),
		Truncated:    c.fromMS > span.fromMS,
		Total:        c.total.body(),
		Steps:        []statsStep{},
	}
	for at := span.fromMS; at < span.toMS; at += span.stepMS {
		if counted := c.steps[at]; counted != nil {
			b.Steps = append(b.Steps, statsStep{
				Begin: input.Due(at), Partial: c.fromMS > at, CountsBody: counted.body(),
			})
		}
	}
	return b
}
