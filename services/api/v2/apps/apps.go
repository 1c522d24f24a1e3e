package apps

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type freezeInput struct {
	param.PathAppParam
	param.DryRunParam
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
	Deleting    string `json:"deleting,omitempty" doc:"Id of the job that deletes it."`
}

type appOutput struct{ Body appBody }

func (s *Resource) getApp(ctx context.Context, in *param.PathAppParam) (*appOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	a, err := s.Store.App(ctx, in.App)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &appOutput{showApp(&a)}, nil
}

type listAppsInput struct{ param.PageParam }

type appsOutput struct{ Body appsBody }

type appsBody struct {
	Items      []appBody `json:"items" nullable:"false"`
	NextCursor string    `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

// listApps lists all apps for callers of the deployment. Others see the app of their key.
func (s *Resource) listApps(ctx context.Context, in *listAppsInput) (*appsOutput, error) {
	after := ""
	if in.Cursor != "" {
		var err error
		if after, err = input.DecodeCursor(input.AppsCursor, in.Cursor); err != nil {
			return nil, err
		}
	}
	found, err := s.visibleApps(ctx, after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &appsOutput{appsBody{Items: make([]appBody, 0, len(found))}}
	for i := range found {
		if i == in.Limit {
			out.Body.NextCursor = input.EncodeCursor(input.AppsCursor, found[i-1].Name)
			break
		}
		out.Body.Items = append(out.Body.Items, showApp(&found[i]))
	}
	return out, nil
}

func (s *Resource) visibleApps(ctx context.Context, after string, limit int) ([]store.App, error) {
	if auth.OfDeployment(ctx) {
		return s.Store.ListApps(
			ctx,
			after,
			limit,
		) //nolint:wrapcheck // the store says what it was doing
	}
	var found []store.App
	for _, name := range auth.AppsOf(ctx) {
		if len(found) == limit {
			break
		}
		if name <= after {
			continue
		}
		own, err := s.Store.App(ctx, name)
		switch {
		case timer.CodeOf(err) == timer.CodeNotFound:
		case err != nil:
			return nil, err //nolint:wrapcheck // the store says what it was doing
		default:
			found = append(found, own)
		}
	}
	return found, nil
}

// freezeApp takes effect when executors read the change log, which they poll twice a second. An app
// without timers can also be frozen, once it has a key or settings. An unknown one cannot: in an
// emergency, a mistyped name would look like success.
func (s *Resource) freezeApp(ctx context.Context, in *freezeInput) (*appOutput, error) {
	reason := input.OrZero(in.Body).Reason
	if reason != "" {
		if err := input.CheckText("reason", reason, timer.MaxReasonLen); err != nil {
			return nil, err
		}
	}
	return s.setFrozen(ctx, in.App, true, reason)
}

type unfreezeInput struct {
	param.PathAppParam
	param.DryRunParam
}

func (s *Resource) unfreezeApp(ctx context.Context, in *unfreezeInput) (*appOutput, error) {
	return s.setFrozen(ctx, in.App, false, "")
}

func (s *Resource) setFrozen(
	ctx context.Context,
	app string,
	frozen bool,
	reason string,
) (*appOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", app); err != nil {
		return nil, err
	}
	if err := input.CheckText("path.app", app, timer.MaxAppLen); err != nil {
		return nil, err
	}
	a, err := s.Store.SetFrozen(ctx, app, frozen, reason)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &appOutput{showApp(&a)}, nil
}

func showApp(a *store.App) appBody {
	b := appBody{App: a.Name, Frozen: a.Frozen}
	if a.Frozen {
		b.Reason, b.FrozenSince = a.Reason, input.Instant(a.FrozenMS)
	}
	if a.Deleting != 0 {
		b.Deleting = a.Deleting.String()
	}
	return b
}
