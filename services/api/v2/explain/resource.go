// Package explain answers why a timer was called at an instant, was not, or will be.
package explain

import (
	"context"
	"net/http"
	"strconv"
	"time"

	explaining "github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/fires"
	"github.com/carillon-timer/carillon/services/api/v2/param"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that explanations need.
type Store interface {
	explaining.Store
	explaining.LifeStore
	explaining.HoldStore
}

// Resource is the operation that explains.
type Resource struct {
	Store     Store
	Auth      *auth.Checker
	Problems  *problem.Reporter
	Now       func() time.Time
	Retention time.Duration // how long outcomes are kept
}

// Register adds the operation to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/timers/{id}/explain", ID: "explain-timer",
		Summary: "Explain why a timer was called at an instant, was not, or will be",
	}, s.explain)
}

type explainInput struct {
	param.TimerParam
	At   string `query:"at" maxLength:"40" doc:"The instant to explain (RFC 3339). Without it, and without from and to, the present."`
	From string `query:"from" maxLength:"40" doc:"Explain the instants of a range from here on (RFC 3339). Not with at."`
	To   string `query:"to" maxLength:"40" doc:"The end of the range, excluded. By default a day after from."`
	param.PageParam
}

// AnswerBody explains an instant.
type AnswerBody struct {
	At       string          `json:"at" format:"date-time" doc:"The instant."`
	Local    string          `json:"local" doc:"The instant on the wall clock of the schedule's time zone. A local time that clocks were set forward over has the offset of before."`
	Due      bool            `json:"due" doc:"Whether the timer is or was due then."`
	Code     explaining.Code `json:"code" enum:"delivered,failed_exhausted,failed_not_retried,failed_gave_up,failed_gone,failed_rejected,failed,skipped_inactive,skipped_paused,skipped_frozen,skipped_deleted,skipped_misfired,skipped_superseded,skipped_overlap,skipped_queue_full,skipped_cancelled,skipped,planned,in_progress,overdue,waits_for_retry,waits_for_turn,waits_for_completion,waits_for_limits,waits_for_activation,not_expanded,max_fires_reached,not_activated,inactive,paused,deleted,edited,not_in_schedule,before_start,after_end,excluded_by_calendar,moved_by_calendar,clock_change_gap,clock_change_overlap,beyond_retention,calendar_changed,zone_changed,unknown_schedule,missing" doc:"What became of the instant, or why nothing did."`
	Text     string          `json:"text" doc:"The same as a sentence."`
	Version  int32           `json:"version,omitempty" doc:"Of the definition that was in force."`
	Spec     string          `json:"spec,omitempty" doc:"The cron expression that has the instant."`
	Before   string          `json:"before,omitempty" format:"date-time" doc:"The last due instant before one that is not due."`
	After    string          `json:"after,omitempty" format:"date-time" doc:"The first due instant after one that is not due."`
	MovedTo  string          `json:"moved_to,omitempty" format:"date-time" doc:"Where a calendar, a clock change or an activation moved the fire."`
	ExpandAt string          `json:"expand_at,omitempty" format:"date-time" doc:"Of a due instant whose fire does not exist yet: when the next fires are created."`
	Frozen   bool            `json:"frozen,omitempty" doc:"The app is frozen. If it stays so, the fire is not called, or not again."`
	Slice    *sliceBody      `json:"slice,omitempty" doc:"Of an open fire: the slice that dispatches it."`
	Fire     *fires.FireBody `json:"fire,omitempty" doc:"The fire, open or finished. A stretch of skipped fires is one record."`
	Timeline []fires.HopBody `json:"timeline,omitempty" nullable:"false" doc:"The life of the fire, in order of time, if one instant is explained."`
}

type sliceBody struct {
	Minute string `json:"minute" format:"date-time" doc:"The minute of its run time."`
	Bucket int32  `json:"bucket"`
}

type explanationBody struct {
	TimerID    string       `json:"timer_id"`
	Name       string       `json:"name"`
	Status     timer.Status `json:"status" enum:"active,inactive,paused,deleted" doc:"Of the timer now."`
	Now        string       `json:"now" format:"date-time" doc:"When the question was answered."`
	Items      []AnswerBody `json:"items" nullable:"false" doc:"In order of the instants. An instant has several if the timer was run by a request, a backfill or a redrive, too."`
	Holds      []HoldBody   `json:"holds" nullable:"false" doc:"What holds fires of the timer back now, or may do so. Empty on pages without an open fire, if only past instants are explained, and on later pages."`
	NextCursor string       `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

// HoldBody is what holds coming fires back, or may do so.
type HoldBody struct {
	Code   explaining.HoldCode `json:"code" enum:"timer_paused,timer_inactive,max_fires_reached,app_frozen,app_limited,open_fire,more_open_fires,waits_for_limits,breaker_open,breaker_unknown,waits_for_turn,no_executor,executors_behind,backlog" doc:"What it is."`
	Text   string              `json:"text" doc:"The same as a sentence."`
	Answer *AnswerBody         `json:"answer,omitempty" doc:"Of open_fire: the fire with its explanation, as at has it, without the timeline."`
}

type explanationOutput struct{ Body explanationBody }

// defaultRange is the length of a range without an end.
const defaultRange = 24 * time.Hour

// maxRange limits a range: schedules are searched within it.
const maxRange = 366 * 24 * time.Hour

func (s *Resource) explain(ctx context.Context, in *explainInput) (*explanationOutput, error) {
	id, err := param.Timer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	from, to, err := s.instants(in, now)
	if err != nil {
		return nil, err
	}
	facts, err := explaining.Read(ctx, s.Store, explaining.Query{
		App: in.App, ID: id, FromMS: from, ToMS: to, Limit: in.Limit,
		NowMS: now.UnixMilli(), RetainedFromMS: now.Add(-s.Retention).UnixMilli(),
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	out := &explanationOutput{explanationBody{
		TimerID: id.String(),
		Name:    facts.State.Name,
		Status:  facts.State.Status,
		Now:     input.Instant(now.UnixMilli()),
		Items:   []AnswerBody{},
		Holds:   []HoldBody{},
	}}
	one, open := to == from+1, false
	answers := facts.Explain()
	for _, a := range answers {
		open = open || a.Open != nil
		item := show(&a, facts)
		if one && item.Fire != nil {
			if item.Timeline, err = s.timeline(ctx, &a, facts); err != nil {
				return nil, err
			}
		}
		out.Body.Items = append(out.Body.Items, item)
	}
	if (to > now.UnixMilli() && in.Cursor == "" || open) &&
		facts.State.Status != timer.StatusDeleted {
		of := answers
		if !one {
			of = nil // the holds of a range are those of its timer
		}
		if err := s.addHolds(ctx, facts, of, answers, &out.Body); err != nil {
			return nil, err
		}
	}
	if next := facts.Next(); next != 0 {
		out.Body.NextCursor = input.EncodeCursor(
			input.ExplainCursor, strconv.FormatInt(next, 10))
	}
	return out, nil
}

// timeline returns the life of an answer's fire. A fire that is gone since has none.
func (s *Resource) timeline(
	ctx context.Context, a *explaining.Answer, facts *explaining.Facts,
) ([]fires.HopBody, error) {
	var id timer.FireID
	if a.Outcome != nil {
		id = a.Outcome.FireID
	} else {
		id = a.Open.FireID
	}
	life, err := facts.Life(ctx, s.Store, id)
	if err != nil {
		if timer.CodeOf(err) == timer.CodeNotFound {
			return nil, nil
		}
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return fires.ShowTimeline(life), nil
}

// addHolds adds what holds fires of answers back, and the due open fires that are not listed.
func (s *Resource) addHolds(
	ctx context.Context, facts *explaining.Facts, of, listed []explaining.Answer,
	out *explanationBody,
) error {
	holds, err := facts.ReadHolds(ctx, s.Store, listed)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	for _, h := range append(facts.Holds(of), holds...) {
		b := HoldBody{Code: h.Code, Text: h.Text}
		if h.Answer != nil {
			answer := show(h.Answer, facts)
			b.Answer = &answer
		}
		out.Holds = append(out.Holds, b)
	}
	return nil
}

// instants returns the range that a request asks for, in Unix ms, without its end.
func (s *Resource) instants(in *explainInput, now time.Time) (fromMS, toMS int64, err error) {
	r := &input.BodyReader{}
	at := r.ScheduleInstant("query.at", in.At)
	from, to := r.ScheduleInstant("query.from", in.From), r.ScheduleInstant("query.to", in.To)
	switch {
	case from == nil && to != nil:
		r.Invalid("query.from", "to needs from: add the begin of the range")
	case from == nil && in.Cursor != "":
		r.Invalid("query.cursor", "expected from with a cursor, found none: only ranges have pages")
	case from != nil && at != nil:
		r.Invalid("query.at", "expected at, or from and to, found both: leave one out")
	case from != nil && to == nil:
		end := from.Add(defaultRange)
		to = &end
	}
	if len(r.Errs) == 0 && from != nil && (!to.After(*from) || to.Sub(*from) > maxRange) {
		r.Invalid("query.to", "expected an instant after from, by at most 366 days")
	}
	if len(r.Errs) > 0 {
		return 0, 0, s.Problems.Invalid(r.Errs)
	}
	if from == nil {
		fromMS = now.UnixMilli()
		if at != nil {
			fromMS = input.CeilMS(*at)
		}
		return fromMS, fromMS + 1, nil
	}
	fromMS, toMS = input.CeilMS(*from), input.CeilMS(*to)
	if in.Cursor != "" {
		fromMS, err = position(in.Cursor, fromMS, toMS)
	}
	return fromMS, toMS, err
}

// position returns where a page begins (Unix ms), in [fromMS, toMS).
func position(cursor string, fromMS, toMS int64) (int64, error) {
	text, err := input.DecodeCursor(input.ExplainCursor, cursor)
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the parameter
	}
	next, err := strconv.ParseInt(text, 10, 64)
	if err != nil || next < fromMS || next >= toMS {
		return 0, input.NotACursor() //nolint:wrapcheck // it names the parameter
	}
	return next, nil
}

func show(a *explaining.Answer, facts *explaining.Facts) AnswerBody {
	b := AnswerBody{
		At: input.AnyInstant(a.AtMS), Local: a.Local, Due: a.Due, Code: a.Code, Text: a.Text,
		Version: a.Version, Spec: a.Spec, Frozen: a.Frozen,
	}
	if !a.Due {
		b.Before, b.After = optional(a.BeforeMS), optional(a.AfterMS)
	}
	if a.ExpandAtMS != 0 {
		b.ExpandAt = input.Instant(a.ExpandAtMS)
	}
	if a.MovedToMS != 0 {
		b.MovedTo = input.Instant(a.MovedToMS)
	}
	switch {
	case a.Outcome != nil:
		fire := fires.ShowOutcome(a.Outcome)
		b.Fire = &fire
	case a.Open != nil:
		fire := fires.ShowOpen(
			a.Open,
			explaining.OpenCode(a.Open, facts.Owners, &facts.State, facts.NowMS),
		)
		b.Fire = &fire
	}
	if a.Open != nil && a.Open.RunAtMS != timer.DeferredMS {
		b.Slice = &sliceBody{
			Minute: input.AnyInstant(a.Open.RunAtMinute() * timer.MinuteMS),
			Bucket: a.Open.Bucket,
		}
	}
	return b
}

// optional returns an instant, or nothing if there is none.
func optional(ms int64) string {
	if ms == timer.NeverMS {
		return ""
	}
	return input.AnyInstant(ms)
}
