// Package announce makes the messages by which outcomes are told of on the outcomes topic: executors publish those of their own, schedulers what those that ended
// had not published yet, and what no executor recorded.
package announce

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// Message tells of an outcome of an app. The same outcome always has the same message: whoever listens drops what comes twice by the fire.
func Message(o *timer.Outcome, app string) bus.Message {
	payload, _ := proto.Marshal(&carillonv1.Outcome{ // its texts are our own words and an app's checked name: cannot fail
		TimerId: int64(o.Timer), DueMs: o.DueMS, Series: o.Series, App: app, Kind: string(o.Kind), Reason: string(o.Reason),
		FinishedMs: o.FinishedMS, Attempts: o.Attempts, LatenessMs: o.LatenessMS, StatusCode: o.StatusCode, DurationMs: o.DurationMS,
		UntilMs: o.UntilMS, Count: o.Count, Failure: string(o.Failure),
	})
	return bus.Message{Key: app, Payload: payload, Properties: map[string]string{bus.PropFire: o.FireID.String(), bus.PropApp: app}}
}

// Apps are where the names of apps are read.
type Apps interface {
	AppsByID(ctx context.Context, ids []int64) ([]store.App, error)
}

// Messages tells of outcomes as the store has them: it reads whose they are, and leaves out the canary's, which are nobody's.
func Messages(ctx context.Context, apps Apps, os []timer.Outcome) ([]bus.Message, error) {
	if len(os) == 0 {
		return nil, nil
	}
	ids := make([]int64, 0, 1)
	names := make(map[int64]string, 1)
	for i := range os {
		if _, ok := names[os[i].AppID]; !ok {
			names[os[i].AppID] = ""
			ids = append(ids, os[i].AppID)
		}
	}
	found, err := apps.AppsByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the apps of outcomes: %w", err)
	}
	for i := range found {
		names[found[i].ID] = found[i].Name
	}
	msgs := make([]bus.Message, 0, len(os))
	for i := range os {
		if app := names[os[i].AppID]; app != timer.ReservedApp {
			msgs = append(msgs, Message(&os[i], app))
		}
	}
	return msgs, nil
}
