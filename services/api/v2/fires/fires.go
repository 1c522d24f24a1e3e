package fires

import (
	"cmp"
	"context"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type fireParam struct {
	param.AppParam
	ID string `path:"id" maxLength:"64" doc:"The fire's id: <timer>-<due in unix ms>, with -<series> where it is not of the schedule."`
}

type fireOutput struct{ Body fireDetailBody }

func (s *Resource) getFire(ctx context.Context, in *fireParam) (*fireOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	id, err := timer.ParseFireID(in.ID)
	if err != nil {
		return nil, badFireID(in.ID)
	}
	found, err := explain.ReadLife(ctx, s.Store, in.App, id, s.Now().UnixMilli())
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := &fireOutput{fireDetailBody{AttemptLog: make([]attemptBody, 0, len(found.Attempts))}}
	if found.Outcome != nil {
		out.Body.FireBody = ShowOutcome(found.Outcome)
	} else {
		out.Body.FireBody = ShowOpen(found.Open, found.Code())
	}
	out.Body.SessionName = found.Owner.Name
	out.Body.Timeline = ShowTimeline(found)
	if out.Body.Targets, err = s.targetsOf(ctx, id.Timer, &found.FireRecord); err != nil {
		return nil, err
	}
	for i := range found.Attempts {
		out.Body.AttemptLog = append(out.Body.AttemptLog, showAttempt(&found.Attempts[i]))
	}
	return out, nil
}

// targetsOf returns the result of each target where all targets are called; nil for other timers,
// and for skipped fires.
func (s *Resource) targetsOf(
	ctx context.Context,
	id timer.ID,
	rec *store.FireRecord,
) ([]targetOutcomeBody, error) {
	var kind timer.OutcomeKind
	key := store.VersionKey{Timer: id}
	switch {
	case rec.Outcome != nil && rec.Outcome.Kind == timer.Skipped && len(rec.Attempts) == 0:
		return nil, nil
	case rec.Outcome != nil:
		key.Version, kind = rec.Outcome.Version, rec.Outcome.Kind
	case rec.Open != nil:
		key.Version = rec.Open.Version
	}
	defs, err := s.Store.Definitions(ctx, []store.VersionKey{key})
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	d := defs[key]
	if d == nil {
		return nil, nil
	}
	var out []targetOutcomeBody
	for _, t := range d.Outcomes(kind, rec.Attempts) {
		if t.Kind == "" &&
			rec.Open.TargetBits>>t.Index&(timer.TargetGivenUp|timer.TargetGone) != 0 {
			t.Kind = timer.Failed // only the others are called again
		}
		out = append(out, targetOutcomeBody{
			Index:      t.Index,
			Target:     d.TargetName(t.Index),
			Kind:       definition.CallableKind(d.Targets[t.Index].Kind),
			Outcome:    cmp.Or(string(t.Kind), "pending"),
			Attempts:   t.Attempts,
			StatusCode: t.StatusCode,
			Failure:    string(t.Failure),
		})
	}
	return out, nil
}
