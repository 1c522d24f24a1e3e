// Package announce makes the messages by which outcomes are told of on the outcomes topic:
// executors publish those of their own, schedulers what those that ended had not published yet, and
// what no executor recorded.
package announce

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// Message tells of an outcome of an app, and of each target where all were to take the fire. The
// same outcome always has the same message: whoever listens drops what comes twice by the fire.
func Message(o *timer.Outcome, app string, each []timer.TargetOutcome) bus.Message {
	var targets []*carillonv1.TargetOutcome
	for i := range each {
		t := &each[i]
		targets = append(targets, &carillonv1.TargetOutcome{
			//nolint:gosec // MaxTargets
			Index: int32(
				t.Index,
			),
			Kind:       string(t.Kind),
			Attempts:   t.Attempts,
			StatusCode: t.StatusCode,
			Failure:    string(t.Failure),
		})
	}
	// its texts are our own words and an app's checked name: cannot fail.
	payload, _ := proto.Marshal(&carillonv1.Outcome{
		TimerId: int64(
			o.Timer,
		),
		DueMs:      o.DueMS,
		Series:     o.Series,
		App:        app,
		Kind:       string(o.Kind),
		Reason:     string(o.Reason),
		FinishedMs: o.FinishedMS,
		Attempts:   o.Attempts,
		LatenessMs: o.LatenessMS,
		StatusCode: o.StatusCode,
		DurationMs: o.DurationMS,
		UntilMs:    o.UntilMS,
		Count:      o.Count,
		Failure:    string(o.Failure),
		Targets:    targets,
	})
	return bus.Message{
		Key:        app,
		Payload:    payload,
		Properties: map[string]string{bus.PropFire: o.FireID.String(), bus.PropApp: app},
	}
}

// Store is where the names of apps are read, and what became of each target.
type Store interface {
	AppsByID(ctx context.Context, ids []int64) ([]store.App, error)
	TargetAttempts(ctx context.Context, fires []timer.FireID) ([]timer.Attempt, error)
	Definitions(
		ctx context.Context,
		keys []store.VersionKey,
	) (map[store.VersionKey]timer.Definition, error)
}

// Messages tells of outcomes as the store has them: it reads whose they are, and leaves out the
// canary's, which are nobody's.
func Messages(ctx context.Context, st Store, os []timer.Outcome) ([]bus.Message, error) {
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
	found, err := st.AppsByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the apps of outcomes: %w", err)
	}
	for i := range found {
		names[found[i].ID] = found[i].Name
	}
	each, err := targetsOf(ctx, st, os)
	if err != nil {
		return nil, err
	}
	msgs := make([]bus.Message, 0, len(os))
	for i := range os {
		if app := names[os[i].AppID]; app != timer.ReservedApp {
			msgs = append(msgs, Message(&os[i], app, each[os[i].FireID]))
		}
	}
	return msgs, nil
}

// targetsOf reads what became of each target, by the attempts and by the definitions of those that
// have any: most outcomes are of timers with one target.
func targetsOf(
	ctx context.Context,
	st Store,
	os []timer.Outcome,
) (map[timer.FireID][]timer.TargetOutcome, error) {
	var called []timer.FireID
	for i := range os {
		if os[i].Attempts > 0 {
			called = append(called, os[i].FireID)
		}
	}
	if len(called) == 0 {
		return nil, nil //nolint:nilnil // none of them
	}
	attempts, err := st.TargetAttempts(ctx, called)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of outcomes: %w", err)
	}
	if len(attempts) == 0 {
		return nil, nil //nolint:nilnil // none of them
	}
	byFire := make(map[timer.FireID][]timer.Attempt)
	for _, a := range attempts {
		byFire[a.FireID] = append(byFire[a.FireID], a)
	}
	versions := make(map[store.VersionKey]struct{})
	for i := range os {
		if byFire[os[i].FireID] != nil {
			versions[store.VersionKey{Timer: os[i].Timer, Version: os[i].Version}] = struct{}{}
		}
	}
	defs, err := st.Definitions(ctx, slices.Collect(maps.Keys(versions)))
	if err != nil {
		return nil, fmt.Errorf("reading the definitions of outcomes: %w", err)
	}
	each := make(map[timer.FireID][]timer.TargetOutcome, len(byFire))
	for i := range os {
		if as := byFire[os[i].FireID]; as != nil {
			d := defs[store.VersionKey{Timer: os[i].Timer, Version: os[i].Version}]
			each[os[i].FireID] = d.Outcomes(os[i].Kind, as)
		}
	}
	return each, nil
}
