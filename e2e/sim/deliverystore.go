package sim

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *gatedStore) AppsByID(ctx context.Context, ids []int64) ([]store.App, error) {
	return gatedCall(
		s,
		ctx,
		"AppsByID",
		false,
		func(ctx context.Context) ([]store.App, error) { return s.Store.AppsByID(ctx, ids) },
	)
}

func (s *gatedStore) SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error) {
	return gatedCall(
		s,
		ctx,
		"SigningKeys",
		false,
		func(ctx context.Context) ([]store.SigningKey, error) { return s.Store.SigningKeys(ctx, app) },
	)
}

func (s *gatedStore) PendingEvents(
	ctx context.Context,
	session timer.ID,
	behind store.OutcomePosition,
	untilMS int64,
	limit int,
) ([]timer.Outcome, error) {
	return gatedCall(
		s,
		ctx,
		"PendingEvents",
		false,
		func(ctx context.Context) ([]timer.Outcome, error) {
			return s.Store.PendingEvents(ctx, session, behind, untilMS, limit)
		},
	)
}

func (s *gatedStore) TargetAttempts(
	ctx context.Context,
	fires []timer.FireID,
) ([]timer.Attempt, error) {
	return gatedCall(
		s,
		ctx,
		"TargetAttempts",
		false,
		func(ctx context.Context) ([]timer.Attempt, error) { return s.Store.TargetAttempts(ctx, fires) },
	)
}

func (s *gatedStore) Silent(ctx context.Context) (map[timer.ID]store.OutcomePosition, error) {
	return gatedCall(s, ctx, "SessionsWithPendingEvents", false, s.Store.SessionsWithPendingEvents)
}

func (s *gatedStore) FinishEvents(ctx context.Context, session timer.ID) error {
	_, err := gatedCall(
		s,
		ctx,
		"FinishAnnounced",
		true,
		func(ctx context.Context) (noResult, error) {
			return noResult{}, s.Store.FinishEvents(ctx, session)
		},
	)
	return err
}

func (s *gatedStore) AckEvents(
	ctx context.Context,
	session timer.ID,
	p store.OutcomePosition,
) error {
	_, err := gatedCall(s, ctx, "AckEvents", true, func(ctx context.Context) (noResult, error) {
		return noResult{}, s.Store.AckEvents(ctx, session, p)
	})
	return err
}
