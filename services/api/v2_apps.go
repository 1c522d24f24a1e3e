package api

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// PathAppParam names the app that a request is about.
type PathAppParam struct {
	App string `path:"app" minLength:"1" maxLength:"64" doc:"The app."`
}

type freezeInput struct {
	PathAppParam
	Body *freezeBody
}

type freezeBody struct {
	Reason string `json:"reason,omitempty" maxLength:"256" doc:"Why; shown until the app is unfrozen." example:"incident 4711"`
}

type appBody struct {
	App         string `json:"app"`
	Frozen      bool   `json:"frozen" doc:"Whether its fires are skipped (frozen) instead of called."`
	Reason      string `json:"reason,omitempty" doc:"Why it is frozen."`
	FrozenSince string `json:"frozen_since,omitempty" format:"date-time"`
}

type appOutput struct{ Body appBody }

func (s *Service) getApp(ctx context.Context, in *PathAppParam) (*appOutput, error) {
	if err := s.authorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	a, err := s.opts.Store.App(ctx, in.App)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &appOutput{showApp(&a)}, nil
}

// freezeApp takes effect when executors read the change log, which they poll twice a second. An app
// without timers can also be frozen.
func (s *Service) freezeApp(ctx context.Context, in *freezeInput) (*appOutput, error) {
	reason := orZero(in.Body).Reason
	if reason != "" {
		if err := checkText("reason", reason, timer.MaxReasonLen); err != nil {
			return nil, err
		}
	}
	return s.setFrozen(ctx, in.App, true, reason)
}

func (s *Service) unfreezeApp(ctx context.Context, in *PathAppParam) (*appOutput, error) {
	return s.setFrozen(ctx, in.App, false, "")
}

func (s *Service) setFrozen(
	ctx context.Context,
	app string,
	frozen bool,
	reason string,
) (*appOutput, error) {
	if err := s.mayChange(ctx, "path.app", app); err != nil {
		return nil, err
	}
	if err := checkText("path.app", app, timer.MaxAppLen); err != nil {
		return nil, err
	}
	a, err := s.opts.Store.SetFrozen(ctx, app, frozen, reason)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &appOutput{showApp(&a)}, nil
}

func showApp(a *store.App) appBody {
	b := appBody{App: a.Name, Frozen: a.Frozen}
	if a.Frozen {
		b.Reason, b.FrozenSince = a.Reason, instant(a.FrozenMS)
	}
	return b
}
