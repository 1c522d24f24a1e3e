package fires

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// maxScans is how many pages of the store one list examines in which few dead letters match.
const maxScans = 8

type deadLettersInput struct {
	param.PathAppParam
	param.PageParam
	Timer   string `query:"timer" maxLength:"128" doc:"Only fires of this timer: its id, or its name."`
	From    string `query:"from" doc:"Only fires due at this instant (RFC 3339) or later."`
	To      string `query:"to" doc:"Only fires due before this instant (RFC 3339)."`
	Failure string `query:"failure" doc:"Only fires whose last attempt had this failure: timeout, connect, status and so on."`
	Again   bool   `query:"again" doc:"Also fires that were redriven before."`
}

type deadLettersOutput struct{ Body deadLettersBody }

type deadLettersBody struct {
	Items      []deadLetterBody `json:"items" nullable:"false"`
	NextCursor string           `json:"next_cursor" doc:"Pass it as cursor, with the same selection, for the next page; empty on the last one. A page may have fewer items than limit, or none, and still a next_cursor: a request examines a limited number of failed fires."`
}

type deadLetterBody struct {
	FireBody

	TimerName string `json:"timer_name,omitempty" doc:"The name of its timer."`
	LastError string `json:"last_error,omitempty" doc:"Of the last attempt that had an error text, of a target that did not take the fire."`
}

// listDeadLetters lists what a redrive of the same selection would create again, in the same order.
// A fire that is redriven between two pages is not on later ones; none is listed twice.
func (s *Resource) listDeadLetters(
	ctx context.Context,
	in *deadLettersInput,
) (*deadLettersOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	selected := selection{
		timer: in.Timer, from: in.From, to: in.To, failure: in.Failure, again: in.Again,
	}
	q, err := s.query(ctx, in.App, "query.", &selected)
	if err != nil {
		return nil, err
	}
	if in.Cursor != "" {
		if q.After, err = decodeDeadLettersCursor(in.Cursor); err != nil {
			return nil, err
		}
	}
	out := &deadLettersOutput{deadLettersBody{Items: make([]deadLetterBody, 0, in.Limit)}}
	scans := 0
	for more := true; more && len(out.Body.Items) < in.Limit && scans < maxScans &&
		(scans == 0 || !deadlineNear(ctx)); {
		q.Limit = min(in.Limit-len(out.Body.Items), store.MaxBatch)
		page, err := s.Store.DeadLetters(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing dead letters: %w", err)
		}
		for i := range page.DeadLetters {
			l := &page.DeadLetters[i]
			out.Body.Items = append(
				out.Body.Items,
				deadLetterBody{FireBody: ShowOutcome(&l.Outcome), LastError: l.LastError},
			)
		}
		if len(page.DeadLetters) < q.Limit {
			scans++
		}
		out.Body.NextCursor = ""
		if more = page.Next != (store.OutcomePosition{}); more {
			q.After = page.Next
			out.Body.NextCursor = deadLettersCursor(&q)
		}
	}
	return out, s.nameTimers(ctx, out.Body.Items)
}

// nameTimers adds the names of the timers, which never change.
func (s *Resource) nameTimers(ctx context.Context, letters []deadLetterBody) error {
	var ids []timer.ID
	for i := range letters {
		if id, err := timer.ParseID(letters[i].TimerID); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	states, err := s.Store.States(ctx, slices.Compact(ids))
	if err != nil {
		return fmt.Errorf("reading the timers of dead letters: %w", err)
	}
	names := make(map[string]string, len(states))
	for i := range states {
		names[states[i].ID.String()] = states[i].Name
	}
	for i := range letters {
		letters[i].TimerName = names[letters[i].TimerID]
	}
	return nil
}

// deadLettersCursor encodes the position after which a query continues.
func deadLettersCursor(q *store.DeadLetterQuery) string {
	return input.EncodeCursor(input.DeadLettersCursor, positionOf(q))
}

func decodeDeadLettersCursor(cursor string) (after store.OutcomePosition, err error) {
	position, err := input.DecodeCursor(input.DeadLettersCursor, cursor)
	if err != nil {
		return after, err
	}
	return parsePosition(position)
}

// positionOf encodes where a query continues.
func positionOf(q *store.DeadLetterQuery) string {
	return fmt.Sprintf("%d.%s", q.After.FinishedMS, q.After.FireID)
}

func parsePosition(position string) (after store.OutcomePosition, err error) {
	finished, fire, _ := strings.Cut(position, ".")
	finishedMS, err := strconv.ParseInt(finished, 10, 64)
	if err != nil || finishedMS <= 0 {
		return after, input.NotACursor()
	}
	id, err := timer.ParseFireID(fire)
	if err != nil {
		return after, input.NotACursor()
	}
	return store.OutcomePosition{FinishedMS: finishedMS, FireID: id}, nil
}

// selection is the part of a request that selects dead letters. Empty fields select all.
type selection struct {
	timer, from, to, failure string
	fires                    []string
	again                    bool
}

// query converts a selection. place precedes the names of its fields in errors.
func (s *Resource) query(
	ctx context.Context,
	app, place string,
	in *selection,
) (store.DeadLetterQuery, error) {
	q := store.DeadLetterQuery{
		App:             app,
		IncludeRedriven: in.again,
		Failure:         timer.Failure(in.failure),
	}
	var r input.BodyReader
	if in.timer != "" {
		id, err := s.findTimer(ctx, app, place+"timer", in.timer)
		if err != nil {
			return q, err
		}
		q.Timer = id
	}
	for i, text := range in.fires {
		id, err := timer.ParseFireID(text)
		if err != nil {
			r.Invalid(fmt.Sprintf("%sfires[%d]", place, i), badFireIDText(text))
		}
		q.Fires = append(q.Fires, id)
	}
	if at := r.Instant(place+"from", in.from); at != nil {
		q.FromMS = input.CeilMS(*at)
	}
	if at := r.Instant(place+"to", in.to); at != nil {
		if q.ToMS = input.EndMS(*at); in.from != "" && input.CeilMS(*at) <= q.FromMS {
			r.Invalid(
				place+"to",
				fmt.Sprintf("expected an instant later than from (%q), found %q", in.from, in.to),
			)
		}
	}
	if in.failure != "" && !slices.Contains(timer.Failures(), q.Failure) {
		r.Invalid(
			place+"failure",
			fmt.Sprintf("expected one of %s, found %q", failureNames(), input.Clip(in.failure)),
		)
	}
	if len(r.Errs) > 0 {
		return q, s.Problems.Invalid(r.Errs)
	}
	return q, nil
}

// findTimer returns the id of a timer of the app. field is where the request names it.
func (s *Resource) findTimer(
	ctx context.Context,
	app, field, text string,
) (timer.ID, error) {
	found, ok, err := param.FindTimer(ctx, s.Store, app, text)
	missing := &timer.Error{Code: timer.CodeNotFound, Field: field}
	switch {
	case err != nil:
		return 0, err //nolint:wrapcheck // the store says what it was doing
	case !ok:
		missing.Msg = fmt.Sprintf(
			"no timer %q in this app: give the name or the id of one that is in its list of timers",
			input.Clip(text),
		)
		return 0, missing
	case found.Status == timer.StatusDeleted:
		missing.Msg = fmt.Sprintf("the timer %s (%s) was deleted: %s",
			found.ID, input.Clip(found.Name), ofDeleted)
		return 0, missing
	}
	return found.ID, nil
}

// ofDeleted says what became of the dead letters of a deleted timer. A redrive would call what
// nobody wants to be called any more, with a definition that is no longer there.
const ofDeleted = "its dead letters are no longer listed, and cannot be redriven; " +
	"they are among its fires for as long as the deployment keeps those"

// failureNames lists the classes of failures.
func failureNames() string {
	var names []string
	for _, f := range timer.Failures() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}
