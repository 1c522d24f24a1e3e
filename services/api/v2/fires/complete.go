package fires

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// A receiver may complete a fire before the executor has recorded its acceptance. The request
// retries for this long, at this interval. While the store is unavailable to the executor, that may
// take longer: then the receiver retries. A conflict would tell it to give up.
const (
	earlyCompletionWait = 3 * time.Second
	earlyCompletionPoll = 100 * time.Millisecond
)

type completeInput struct {
	param.DryRunParam

	ID   string `path:"id" maxLength:"64" doc:"The fire's id, as the callback's Carillon-Fire-Id told it."`
	Body completeBody
}

type completeBody struct {
	Token   string `json:"token" minLength:"1" maxLength:"256" doc:"The callback's Carillon-Complete-Token. It holds for that attempt."`
	Status  string `json:"status" enum:"delivered,failed" doc:"What became of it."`
	Message string `json:"message,omitempty" maxLength:"1024" doc:"Why it failed; the first 512 bytes are kept, on one line."`
}

type completeOutput struct{ Body completedBody }

type completedBody struct {
	ID       string `json:"id" doc:"The fire's."`
	Status   string `json:"status" enum:"delivered,failed"`
	Repeated bool   `json:"repeated" doc:"It had been completed so before; nothing changed."`
}

// completeFire requires the token of an attempt, and no key.
func (s *Resource) completeFire(ctx context.Context, in *completeInput) (*completeOutput, error) {
	id, err := timer.ParseFireID(in.ID)
	if err != nil {
		return nil, badFireID(in.ID)
	}
	attempt, target := s.attemptOf(id, in.Body.Token)
	if attempt == 0 {
		// The caller has no key here, and a token has no public part.
		s.Auth.RecordDenied(ctx, auth.DeniedToken, "")
		return nil, problem.Of(
			problem.Fault{Status: http.StatusForbidden, Msg: "the token is not one of this fire"},
		)
	}
	permit, ok := s.completions.admit(id, requests.ClientAddress(ctx))
	if !ok {
		busy := problem.Of(
			problem.Fault{
				Status: http.StatusServiceUnavailable,
				Msg:    "this fire is being completed, or this address completes too many fires at once: retry",
			},
		)
		return nil, huma.ErrorWithHeaders(busy, http.Header{"Retry-After": {problem.RetryAfter}})
	}
	defer permit.release()
	var state timer.State
	c := store.Completion{
		FireID: id, Attempt: attempt, Target: target, FinishedMS: s.Now().UnixMilli(),
	}
	if in.Body.Status == string(timer.Failed) {
		c.Failed = &timer.Attempt{
			FireID:  id,
			N:       attempt,
			Failure: timer.FailureAsync,
			Error:   strings.TrimSpace("completed as failed: " + oneLine(in.Body.Message)),
		}
	}
	err = permit.withSlot(ctx, func() (err error) {
		if state, err = s.stateOf(ctx, id); err == nil && c.Failed == nil {
			c.Next, err = s.successorOf(ctx, state.App, id, c.FinishedMS)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Name = state.Name
	done, err := s.complete(s.Auth.AsTokenHolder(ctx), permit, state.App, c)
	if err != nil {
		return nil, err
	}
	if !done && c.Failed == nil && !in.DryRun {
		s.trace(ctx, &state, id)
	}
	return &completeOutput{
		completedBody{ID: id.String(), Status: in.Body.Status, Repeated: done},
	}, nil
}

// stateOf returns the state of a fire's timer.
func (s *Resource) stateOf(ctx context.Context, id timer.FireID) (timer.State, error) {
	states, err := s.Store.States(ctx, []timer.ID{id.Timer})
	if err != nil {
		return timer.State{}, err
	}
	if len(states) == 0 {
		return timer.State{}, timer.NotFound("fire", id)
	}
	return states[0], nil
}

// complete finishes the fire, or schedules its retry. repeated is true where the same completion
// was recorded before. It holds a slot only during store calls.
func (s *Resource) complete(
	ctx context.Context,
	permit *completionPermit,
	app string,
	c store.Completion,
) (repeated bool, err error) {
	last := time.NewTimer(earlyCompletionWait)
	defer last.Stop()
	again := time.NewTicker(earlyCompletionPoll)
	defer again.Stop()
	for {
		var out store.CompletionResult
		err := permit.withSlot(ctx, func() (err error) {
			out, err = s.Store.Complete(ctx, app, c)
			return err
		})
		s.Writer.Dispatch(ctx, out.Fires) // also of a commit in doubt: see store.Timers
		if err != nil {
			return false, fmt.Errorf("completing a fire: %w", err)
		}
		switch out.State {
		case store.CompletionAccepted, store.CompletionRepeated:
			return out.State == store.CompletionRepeated, nil
		case store.CompletionTooEarly:
		case store.CompletionTooLate:
			fallthrough
		default:
			return false, s.tooLate(ctx, permit, app, &c)
		}
		select {
		case <-again.C:
		case <-last.C:
			early := problem.Of(
				problem.Fault{
					Status: http.StatusServiceUnavailable,
					Msg:    "the attempt is not recorded yet: retry",
				},
			)
			return false, huma.ErrorWithHeaders(
				early,
				http.Header{"Retry-After": {problem.RetryAfter}},
			)
		case <-ctx.Done():
			return false, timer.Unavailable("no answer in time", ctx.Err())
		}
	}
}

// tooLate says why a fire does not wait for a completion, as it is now.
func (s *Resource) tooLate(
	ctx context.Context, permit *completionPermit, app string, c *store.Completion,
) error {
	var found store.FireRecord
	err := permit.withSlot(ctx, func() (err error) {
		found, err = s.Store.Fire(ctx, app, c.FireID)
		return err
	})
	if err != nil {
		return err
	}
	why := fmt.Sprintf("attempt %d has ended", c.Attempt)
	switch o := found.Outcome; {
	case o != nil && o.Kind == timer.Delivered && o.Owner == store.SystemSession &&
		o.Attempts == c.Attempt:
		why = "it was completed as delivered before"
	case o != nil:
		why = "it has its outcome, " + string(o.Kind)
	case found.Open.Attempt > c.Attempt:
		why = fmt.Sprintf("the token is of attempt %d, and attempt %d has been made since",
			c.Attempt, found.Open.Attempt)
	case found.Open.State == timer.FireAccepted && found.Open.Attempt == c.Attempt:
		why = fmt.Sprintf("another target accepted attempt %d", c.Attempt)
	}
	return timer.Conflict(
		"",
		"the fire is not waiting for this completion: "+why+"; look at GET /fires/{id}",
	)
}

// maxAttemptNumber is the greatest number of an attempt. If a timer calls its targets in turn and is
// paused between two of them, another attempt calls those that were not tried, also after the last
// one that the policy allows. Each further one calls at least one target for the last time.
const maxAttemptNumber = definition.MaxAttempts + timer.MaxTargets

// attemptOf returns the attempt that a token belongs to, or 0, and the target, as in Completion. It
// tries all numbers, because a timer may have had more attempts than its policy now allows, and
// redrives count anew.
func (s *Resource) attemptOf(
	id timer.FireID, token string,
) (attempt int32, target timer.TargetBits) {
	if s.Tokens == nil {
		return 0, 0
	}
	for n := int32(1); n <= maxAttemptNumber; n++ {
		if target, ok := s.Tokens.Verify(id, n, token); ok {
			return n, target
		}
	}
	return 0, 0
}

// successorOf plans the successor of a fire of a fixed delay that is completed now; nil for other
// timers.
func (s *Resource) successorOf(
	ctx context.Context,
	app string,
	id timer.FireID,
	endMS int64,
) (*timer.Fire, error) {
	if id.Series != 0 {
		return nil, nil //nolint:nilnil // a run-now is no link of the chain
	}
	found, err := s.Store.Fire(ctx, app, id)
	if err != nil {
		return nil, err
	}
	if found.Open == nil {
		return nil, nil //nolint:nilnil // it is over: what followed it is made
	}
	key := store.VersionKey{Timer: id.Timer, Version: found.Open.Version}
	defs, err := s.Store.Definitions(ctx, []store.VersionKey{key})
	if err != nil {
		return nil, err
	}
	d, ok := defs[key]
	if ok && d.Unreadable != "" {
		// The chain of fires would end. A newer api can read it, or an executor decides after the
		// completion's time.
		return nil, timer.Unavailable("planning the next fire", errors.New(d.Unreadable))
	}
	if !ok || d.Schedule.Kind != timer.KindFixedDelay {
		return nil, nil //nolint:nilnil // nothing follows it
	}
	var calendars []timer.Calendar
	for _, name := range d.Schedule.Calendars {
		c, err := s.Store.Calendar(ctx, app, name)
		switch {
		case timer.CodeOf(err) == timer.CodeNotFound:
			// It was deleted, as the timer's latest version does not name it. It excludes nothing.
			c.Calendar = timer.Calendar{Name: name}
		case err != nil:
			return nil, err
		}
		calendars = append(calendars, c.Calendar)
	}
	next, err := s.Successor.Successor(found.Open, d, calendars, endMS)
	if err != nil {
		return nil, timer.Unavailable("planning the next fire", err) // as above
	}
	return next, nil
}

// oneLine replaces the control characters in a receiver's message, so that it is one line.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// badFireIDText describes a text that is not a fire id.
func badFireIDText(text string) string {
	return fmt.Sprintf(
		"expected a fire id, which is <timer>-<due_ms> or <timer>-<due_ms>-<series>, found %q",
		input.Clip(text),
	)
}

func badFireID(text string) error { return timer.Invalid("path.id", badFireIDText(text)) }
