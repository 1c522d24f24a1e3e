package api

import (
	"context"
	"encoding/binary"
	"net/url"

	"github.com/carillon-timer/carillon/libs/timer"
)

// KeyHeader is the idempotency key of a request that creates something.
type KeyHeader struct {
	Key string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"Repeating the request under the same key within a day answers with the result of the first."`
}

type runInput struct {
	TimerParam
	KeyHeader
}

type runOutput struct {
	Location string `header:"Location" doc:"The fire's path."`
	Body     FireBody
}

// runTimer creates a fire that is due now, in a series of its own. Under an idempotency key the
// store keeps the instant of the first call. Series and instant identify a fire, so a repetition
// creates the same fire, which the store leaves alone.
func (s *Service) runTimer(ctx context.Context, in *runInput) (*runOutput, error) {
	id, err := s.ownID(ctx, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	t, err := s.opts.Store.Timer(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	f := timer.Fire{
		FireID: timer.FireID{
			Timer:  id,
			DueMS:  s.opts.Now().UnixMilli(),
			Series: int64(s.ids.Next()),
		},
		AppID:   t.AppID,
		Version: t.Version,
		Epoch:   t.ActiveEpoch,
		Cause:   timer.CauseRunNow,
		State:   timer.FireReady,
	}
	if in.Key != "" {
		key := keyOf("run", id, in.Key)
		if f.DueMS, err = s.opts.Store.PutIfAbsent(ctx, in.App, key, f.DueMS); err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		f.Series = seriesOf(key)
	}
	f.RunAtMS = f.DueMS
	f.Bucket = s.opts.Counts.Bucket(f.FireID, f.RunAtMinute())
	made, err := s.addFires(ctx, in.App, id, []timer.Fire{f})
	if err != nil {
		return nil, err
	}
	out := &runOutput{
		Location: v2Prefix + "/fires/" + f.FireID.String() + "?app=" + url.QueryEscape(in.App),
	}
	if len(made) == 1 {
		out.Body = showOpen(&made[0])
		return out, nil
	}
	there, err := s.getFire(ctx, &fireParam{AppParam: in.AppParam, ID: f.FireID.String()})
	if err != nil {
		return nil, err
	}
	out.Body = there.Body.FireBody
	return out, nil
}

// keyOf returns what the store keeps of an idempotency key. It begins with a control character, so
// no key of a caller can equal it.
func keyOf(what string, id timer.ID, key string) string {
	return "\x01" + string(hash(struct {
		What string
		ID   timer.ID
		Key  string
	}{what, id, key}))
}

// seriesOf derives a series from a key, from 1 to timer.MaxID.
func seriesOf(key string) int64 {
	n := binary.BigEndian.Uint64([]byte(key[1:9])) % uint64(timer.MaxID)
	return int64(n) + 1
}
