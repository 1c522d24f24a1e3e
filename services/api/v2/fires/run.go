package fires

import (
	"context"
	"net/url"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type runInput struct {
	param.TimerParam
	param.DryRunParam
	param.KeyHeader
}

type runOutput struct {
	Location string `header:"Location" doc:"The fire's path."`
	Body     FireBody
}

// runTimer creates a fire that is due now, in a series of its own. Under an idempotency key the
// store keeps the instant of the first call. Series and instant identify a fire, so a repetition
// creates the same fire, which the store leaves alone.
func (s *Resource) runTimer(ctx context.Context, in *runInput) (*runOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	t, err := s.Store.Timer(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	f := timer.Fire{
		FireID: timer.FireID{
			Timer:  id,
			DueMS:  s.Now().UnixMilli(),
			Series: int64(s.IDs.Next()),
		},
		AppID:   t.AppID,
		Version: t.Version,
		Epoch:   t.ActiveEpoch,
		Cause:   timer.CauseRunNow,
		State:   timer.FireReady,
	}
	if in.Key != "" {
		key := param.KeyOf("run", id, in.Key)
		if f.DueMS, err = param.KeepKey(ctx, s.Store, in.App, key, nil, f.DueMS); err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		f.Series = param.SeriesOf(key)
	}
	f.RunAtMS = f.DueMS
	f.Bucket = s.Counts.Bucket(f.FireID, f.RunAtMinute())
	made, err := s.Writer.AddFires(ctx, in.App, id, []timer.Fire{f})
	if err != nil {
		return nil, err
	}
	out := &runOutput{}
	if !in.DryRun {
		out.Location = input.V2Prefix + "/fires/" + f.FireID.String() +
			"?app=" + url.QueryEscape(in.App)
	}
	if len(made) == 1 {
		out.Body = ShowOpen(&made[0], explain.OpenCode(&made[0], nil, nil, s.Now().UnixMilli()))
		return out, nil
	}
	there, err := s.getFire(ctx, &fireParam{AppParam: in.AppParam, ID: f.FireID.String()})
	if err != nil {
		return nil, err
	}
	out.Body = there.Body.FireBody
	return out, nil
}
