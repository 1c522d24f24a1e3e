package api

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
)

const completeFireOperation = "complete-fire"

// A receiver may complete a fire before the executor has recorded that it was accepted. So long, and so often, the call asks again.
const (
	completeEarlyFor   = 3 * time.Second
	completeEarlyEvery = 100 * time.Millisecond
)

type completeInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The fire's id, as the callback's Carillon-Fire-Id told it."`
	Body completeBody
}

type completeBody struct {
	Token   string `json:"token" minLength:"1" maxLength:"256" doc:"The callback's Carillon-Complete-Token. It holds for that attempt."`
	Status  string `json:"status" enum:"delivered,failed" doc:"failed counts as a failed attempt: the timer's retry policy goes on from there."`
	Message string `json:"message,omitempty" maxLength:"1024" doc:"Why it failed; the first 512 bytes are kept, on one line."`
}

type completeOutput struct{ Body completedBody }

type completedBody struct {
	ID       string `json:"id" doc:"The fire's."`
	Status   string `json:"status" enum:"delivered,failed"`
	Repeated bool   `json:"repeated" doc:"It had been completed so before; nothing changed."`
}

// completeFire lets in whoever has the token of an attempt, and nobody else.
func (s *Service) completeFire(ctx context.Context, in *completeInput) (*completeOutput, error) {
	id, err := timer.ParseFireID(in.ID)
	if err != nil {
		return nil, badFireID()
	}
	attempt := s.attemptOf(id, in.Body.Token)
	if attempt == 0 {
		s.countDenied(ctx, deniedToken, "") // nobody shows a key here, and a token has no public part
		return nil, problem(fault{status: http.StatusForbidden, msg: "the token is not one of this fire"})
	}
	states, err := s.opts.Store.States(ctx, []timer.ID{id.Timer})
	if err != nil {
		return nil, err
	}
	if len(states) == 0 {
		return nil, timer.NotFound("fire", id)
	}
	c := store.Completion{FireID: id, Attempt: attempt, FinishedMS: s.opts.Now().UnixMilli()}
	if in.Body.Status == string(timer.Failed) {
		c.Failed = &timer.Attempt{
			FireID: id, N: attempt, Failure: timer.FailureAsync, Error: strings.TrimSpace("completed as failed: " + oneLine(in.Body.Message)),
		}
	} else if c.Next, err = s.followerOf(ctx, states[0].App, id, c.FinishedMS); err != nil {
		return nil, err
	}
	done, err := s.complete(ctx, states[0].App, c)
	if err != nil {
		return nil, err
	}
	return &completeOutput{completedBody{ID: id.String(), Status: in.Body.Status, Repeated: done}}, nil
}

// complete ends the fire, or gives it back. repeated tells that it was so before.
func (s *Service) complete(ctx context.Context, app string, c store.Completion) (repeated bool, err error) {
	last := time.NewTimer(completeEarlyFor)
	defer last.Stop()
	again := time.NewTicker(completeEarlyEvery)
	defer again.Stop()
	for {
		out, err := s.opts.Store.Complete(ctx, app, c)
		s.dispatch(ctx, out.Fires) // of a commit in doubt, too: see store.Timers
		if err != nil {
			return false, fmt.Errorf("completing a fire: %w", err)
		}
		switch out.State {
		case store.CompletedNow, store.CompletedThen:
			return out.State == store.CompletedThen, nil
		case store.CompletedEarly:
		case store.CompletedLate:
			fallthrough
		default:
			return false, timer.Conflict("", "the fire is over, or at another attempt")
		}
		select {
		case <-again.C:
		case <-last.C:
			early := problem(fault{status: http.StatusConflict, msg: "the attempt is not recorded yet: repeat it"})
			return false, huma.ErrorWithHeaders(early, http.Header{"Retry-After": {retryAfter}})
		case <-ctx.Done():
			return false, timer.Unavailable("no answer in time", ctx.Err())
		}
	}
}

// attemptOf returns which attempt of a fire a token is of, 0 where it is of none. A timer may have had more attempts than it has now, and redrives count anew.
func (s *Service) attemptOf(id timer.FireID, token string) int32 {
	if s.tokens == nil {
		return 0
	}
	for n := int32(1); n <= maxAttempts; n++ {
		if s.tokens.Verify(id, n, token) {
			return n
		}
	}
	return 0
}

// followerOf plans what follows a fire of a fixed delay when it is completed now; nil for other timers.
func (s *Service) followerOf(ctx context.Context, app string, id timer.FireID, endMS int64) (*timer.Fire, error) {
	if id.Series != 0 {
		return nil, nil //nolint:nilnil // a run-now is no link of the chain
	}
	found, err := s.opts.Store.Fire(ctx, app, id)
	if err != nil {
		return nil, err
	}
	if found.Open == nil {
		return nil, nil //nolint:nilnil // it is over: what followed it is made
	}
	key := store.VersionKey{Timer: id.Timer, Version: found.Open.Version}
	defs, err := s.opts.Store.Definitions(ctx, []store.VersionKey{key})
	if err != nil {
		return nil, err
	}
	d, ok := defs[key]
	if !ok || d.Schedule.Kind != timer.KindFixedDelay {
		return nil, nil //nolint:nilnil // nothing follows it
	}
	var calendars []timer.Calendar
	for _, name := range d.Schedule.Calendars {
		c, err := s.opts.Store.Calendar(ctx, app, name)
		if err != nil {
			return nil, err
		}
		calendars = append(calendars, c.Calendar)
	}
	return s.opts.Follow.Follow(found.Open, &d, calendars, endMS)
}

// oneLine keeps what a receiver says to one line of text.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

var errFireID = errors.New("is not a fire id: it is <timer>-<due_ms> or <timer>-<due_ms>-<series>")

func badFireID() error { return timer.Invalid("path.id", errFireID.Error()) }
