package backfills

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// Limits of a backfill.
const (
	maxBackfillRange      = 366 * 24 * time.Hour
	deadlineCheckInterval = 1000 // instants between two checks of ctx
)

type startBackfillInput struct {
	param.TimerParam
	param.DryRunParam
	param.KeyHeader
	Body rangeBody
}

type rangeBody struct {
	From string `json:"from" format:"date-time" doc:"Included." example:"2026-01-01T00:00:00Z"`
	To   string `json:"to,omitempty" format:"date-time" doc:"Not included; not in the future; now where it is left out. At most 366 days, and 100,000 fires, after from." example:"2026-01-02T00:00:00Z"`
}

type backfillBody struct {
	ID           string `json:"id" doc:"Also the series of its fires."`
	TimerID      string `json:"timer_id"`
	From         string `json:"from" format:"date-time"`
	To           string `json:"to" format:"date-time"`
	Next         string `json:"next" format:"date-time" doc:"Every instant before it has its fire. Of a backfill that is done it is before to only if an edit gave the range more than 100,000 fires."`
	Fires        *int   `json:"fires,omitempty" doc:"How many fires the range has; only in the answer of its start."`
	FiresCreated int64  `json:"fires_created"`
	Status       string `json:"status" enum:"running,done,cancelled" doc:"Where it stands."`
	CreatedAt    string `json:"created_at" format:"date-time"`
}

type backfillOutput struct{ Body backfillBody }

type startBackfillOutput struct {
	Location string `header:"Location" doc:"The backfill's path."`
	Body     backfillBody
}

// startBackfill counts the fires before it begins, and refuses a range that is too large.
func (s *Resource) startBackfill(
	ctx context.Context,
	in *startBackfillInput,
) (*startBackfillOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	fromMS, toMS, err := s.pastRange(in.Body.From, in.Body.To)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.Timer(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	if err := store.CheckReadable(&t); err != nil {
		return nil, err //nolint:wrapcheck // it says what to do
	}
	fires, err := countFires(ctx, &t, fromMS, toMS)
	if err != nil {
		return nil, err
	}
	b := store.Backfill{
		ID:        s.IDs.Next(),
		App:       in.App,
		Timer:     id,
		FromMS:    fromMS,
		ToMS:      toMS,
		NextMS:    fromMS,
		Status:    store.BackfillRunning,
		CreatedMS: s.Now().UnixMilli(),
	}
	if in.Key != "" {
		kept, err := param.KeepKey(
			ctx,
			s.Store,
			in.App,
			param.KeyOf("backfill", id, in.Key),
			nil, // the range is compared below
			int64(b.ID),
		)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		b.ID = timer.ID(kept)
	}
	begun, err := s.Store.StartBackfill(ctx, b)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	switch {
	case begun.FromMS == fromMS && begun.ToMS == toMS:
	case begun.FromMS == fromMS && in.Body.To == "": // repeated by its key, now is later
		if fires, err = countFires(ctx, &t, fromMS, begun.ToMS); err != nil {
			return nil, err
		}
	default:
		return nil, timer.Conflict(
			"header.Idempotency-Key",
			"expected a key that is new, or of the same range, found one of another range: use another key",
		)
	}
	out := &startBackfillOutput{Body: showBackfill(&begun)}
	out.Body.Fires = &fires
	if !in.DryRun {
		out.Location = input.V2Prefix + "/backfills/" + begun.ID.String() +
			"?app=" + url.QueryEscape(in.App)
	}
	return out, nil
}

// pastRange returns the range of a backfill. Without to it ends now by the store's clock, which the
// caller's clock may be ahead of.
func (s *Resource) pastRange(from, to string) (fromMS, toMS int64, err error) {
	var r input.BodyReader
	first, last, now := r.Instant("from", from), r.Instant("to", to), s.Now()
	if len(r.Errs) > 0 {
		return 0, 0, s.Problems.Invalid(r.Errs)
	}
	endsNow, most := last == nil, maxBackfillRange
	if endsNow {
		passed := now.UTC().Truncate(time.Millisecond)
		last = &passed
		most += time.Minute // from may be counted from a now that was a moment ago
	}
	switch {
	case first == nil:
		return 0, 0, timer.Invalid(
			"from",
			`expected an instant such as "2026-01-01T00:00:00Z", found nothing`,
		)
	case first.UnixMilli() < 0:
		return 0, 0, timer.Invalid(
			"from",
			fmt.Sprintf("expected an instant from 1970 on, found %q", from),
		)
	case endsNow && !first.Before(*last):
		return 0, 0, timer.Invalid(
			"from",
			fmt.Sprintf("expected an instant that has passed, found %q", from),
		)
	case last.After(now):
		return 0, 0, timer.Invalid(
			"to",
			fmt.Sprintf(
				"expected an instant that has passed, as the schedule takes care of the future, found %q",
				to,
			),
		)
	case !first.Before(*last):
		return 0, 0, timer.Invalid(
			"to",
			fmt.Sprintf("expected an instant later than from (%q), found %q", from, to),
		)
	case last.Sub(*first) > most:
		return 0, 0, timer.Invalid(
			"to",
			fmt.Sprintf(
				"expected at most %d days after from, found %q: take several smaller ranges",
				maxBackfillRange/(24*time.Hour),
				last.Format(time.RFC3339),
			),
		)
	}
	return input.CeilMS(*first), input.CeilMS(*last), nil
}

// countFires counts the due instants of a range, and refuses one with too many.
func countFires(ctx context.Context, t *timer.Timer, fromMS, toMS int64) (n int, err error) {
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		return 0, timer.Conflict(
			"",
			"a fixed delay has no past: each of its instants follows from the end of a call",
		)
	}
	p, err := schedule.Parse(t.Definition.Schedule, upcoming.Inputs(t))
	if err != nil {
		return 0, err //nolint:wrapcheck // it names the field
	}
	anchor, ok := expansion.BackfillAnchor(t, p)
	if !ok {
		return 0, timer.Conflict(
			"",
			"the schedule counts from the first activation of its timer, which was never activated, "+
				"so it has no past: activate the timer, or give an interval an anchor",
		)
	}
	for at := p.Next(fromMS-1, anchor); at < toMS; at = p.Next(at, anchor) {
		if n++; n > store.MaxBackfillFires {
			return 0, timer.Invalid(
				"to",
				fmt.Sprintf(
					"expected a range of at most %d fires, found more: take several smaller ranges",
					store.MaxBackfillFires,
				),
			)
		}
		if n%deadlineCheckInterval == 0 && ctx.Err() != nil {
			//nolint:wrapcheck // the caller is told that there was no answer in time
			return 0, ctx.Err()
		}
	}
	return n, nil
}

// BackfillParam identifies a backfill.
type BackfillParam struct {
	param.AppParam
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"The backfill's id."`
}

func (s *Resource) backfillID(ctx context.Context, p *BackfillParam) (timer.ID, error) {
	if err := s.Auth.AuthorizeApp(ctx, p.App); err != nil {
		return 0, err
	}
	id, err := timer.ParseID(p.ID)
	if err != nil {
		return 0, timer.NotFound("backfill", p.ID)
	}
	return id, nil
}

func (s *Resource) getBackfill(ctx context.Context, in *BackfillParam) (*backfillOutput, error) {
	id, err := s.backfillID(ctx, in)
	if err != nil {
		return nil, err
	}
	b, err := s.Store.Backfill(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &backfillOutput{showBackfill(&b)}, nil
}

type cancelInput struct {
	BackfillParam
	param.DryRunParam
}

func (s *Resource) cancelBackfill(ctx context.Context, in *cancelInput) (*backfillOutput, error) {
	id, err := s.backfillID(ctx, &in.BackfillParam)
	if err != nil {
		return nil, err
	}
	if err := input.CheckNotSystemApp("query.app", in.App); err != nil {
		return nil, err
	}
	b, err := s.Store.CancelBackfill(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &backfillOutput{showBackfill(&b)}, nil
}

func showBackfill(b *store.Backfill) backfillBody {
	return backfillBody{
		ID:           b.ID.String(),
		TimerID:      b.Timer.String(),
		From:         input.Due(b.FromMS),
		To:           input.Due(b.ToMS),
		Next:         input.Due(b.NextMS),
		FiresCreated: b.FiresCreated,
		Status:       string(b.Status),
		CreatedAt:    input.Instant(b.CreatedMS),
	}
}
