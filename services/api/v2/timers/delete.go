package timers

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type deleteInput struct {
	param.TimerParam
	param.DryRunParam
	IfMatchParam
}

func (s *Resource) deleteTimer(ctx context.Context, in *deleteInput) (*struct{}, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	c, err := in.condition(0)
	if err != nil {
		return nil, err
	}
	version, err := c.version(func() (timer.Timer, error) { return s.Store.Timer(ctx, in.App, id) })
	if err != nil {
		return nil, err
	}
	_, err = s.Writer.SetStatus(
		ctx,
		store.StatusChange{
			App: in.App, ID: id, Status: timer.StatusDeleted, IfVersion: version,
		},
	)
	return nil, c.failure(err)
}

type namedInput struct {
	param.AppParam
	param.DryRunParam
	IfMatchParam

	Name string `query:"name" required:"true" minLength:"1" maxLength:"128" doc:"The timer's name."`
}

func (s *Resource) deleteNamed(ctx context.Context, in *namedInput) (*struct{}, error) {
	if err := s.Auth.MayChange(ctx, "query.app", in.App); err != nil {
		return nil, err
	}
	c, err := in.condition(0)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.TimerByName(ctx, in.App, in.Name)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	version, err := c.version(func() (timer.Timer, error) { return t, nil })
	if err != nil {
		return nil, err
	}
	_, err = s.Writer.SetStatus(
		ctx,
		store.StatusChange{
			App: in.App, ID: t.ID, Status: timer.StatusDeleted, IfVersion: version,
		},
	)
	return nil, c.failure(err)
}
