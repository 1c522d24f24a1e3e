// Package outcomeevent publishes recorded outcomes: each on the outcomes topic, and failed ones on
// the topic of dead letters, too. Executors publish their own outcomes. Schedulers publish those that
// expired executors left, and those that no executor recorded.
package outcomeevent

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

// Topics returns the topics on which outcomes are published.
func Topics() [2]bus.Topic { return [2]bus.Topic{bus.Outcomes, bus.TasksDead} }

// Takes reports whether a topic has outcomes of a kind. Only failed ones are dead letters.
func Takes(topic bus.Topic, kind timer.OutcomeKind) bool {
	return topic != bus.TasksDead || kind == timer.Failed
}

// Event is an outcome with what its messages say beside it.
type Event struct {
	Outcome    *timer.Outcome
	App, Timer string                // names; dead letters have none of the timer
	LastError  string                // of the last attempt; only in dead letters
	Targets    []timer.TargetOutcome // if all must accept the fire; not in dead letters
}

// Publish publishes events on a topic that takes them. The same outcome always has the same message
// on the outcomes topic. Consumers drop duplicates by fire id.
func Publish(ctx context.Context, b bus.Publisher, topic bus.Topic, es []Event) error {
	if len(es) == 0 {
		return nil
	}
	msgs := make([]bus.Message, len(es))
	for i := range es {
		if e := &es[i]; topic == bus.TasksDead {
			msgs[i] = deadLetter(e.Outcome, e.App, e.LastError)
		} else {
			msgs[i] = message(e.Outcome, e.App, e.Timer, e.Targets)
		}
	}
	return b.Publish(ctx, topic, msgs...) //nolint:wrapcheck // the bus names the topic
}

func message(o *timer.Outcome, app, name string, each []timer.TargetOutcome) bus.Message {
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
	// Its texts are constants and a validated app name: cannot fail.
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
		TimerName:  name,
	})
	return bus.Message{
		Key:        app,
		Payload:    payload,
		Properties: map[string]string{bus.PropFire: o.FireID.String(), bus.PropApp: app},
	}
}

// Store reads the names of apps and timers, the results of targets, and the errors of failed fires.
type Store interface {
	States(ctx context.Context, ids []timer.ID) ([]timer.State, error)
	AppsByID(ctx context.Context, ids []int64) ([]store.App, error)
	TargetAttempts(ctx context.Context, fires []timer.FireID) ([]timer.Attempt, error)
	LastErrors(ctx context.Context, fires []timer.FireID) (map[timer.FireID]string, error)
	Definitions(
		ctx context.Context,
		keys []store.VersionKey,
	) (map[store.VersionKey]*timer.Definition, error)
}

// Read returns the events of those of stored outcomes that a topic takes, without the canary's. It
// reads what their messages say beside the outcome.
func Read(
	ctx context.Context, st Store, topic bus.Topic, outcomes []timer.Outcome,
) ([]Event, error) {
	var os []*timer.Outcome
	for i := range outcomes {
		if Takes(topic, outcomes[i].Kind) {
			os = append(os, &outcomes[i])
		}
	}
	if len(os) == 0 {
		return nil, nil
	}
	apps, err := appNames(ctx, st, os)
	if err != nil {
		return nil, err
	}
	var (
		timers  map[timer.ID]string
		targets map[timer.FireID][]timer.TargetOutcome
		errs    map[timer.FireID]string
	)
	if topic == bus.TasksDead {
		errs, err = lastErrors(ctx, st, os)
	} else if timers, err = timerNames(ctx, st, os); err == nil {
		targets, err = targetsOf(ctx, st, os)
	}
	if err != nil {
		return nil, err
	}
	events := make([]Event, 0, len(os))
	for _, o := range os {
		if app := apps[o.AppID]; app != timer.ReservedApp {
			events = append(
				events,
				Event{o, app, timers[o.Timer], errs[o.FireID], targets[o.FireID]},
			)
		}
	}
	return events, nil
}

func appNames(ctx context.Context, st Store, os []*timer.Outcome) (map[int64]string, error) {
	names := make(map[int64]string, 1)
	for _, o := range os {
		names[o.AppID] = ""
	}
	found, err := st.AppsByID(ctx, slices.Collect(maps.Keys(names)))
	if err != nil {
		return nil, fmt.Errorf("reading the apps of outcomes: %w", err)
	}
	for i := range found {
		names[found[i].ID] = found[i].Name
	}
	return names, nil
}

// timerNames reads the names of timers. It leaves out those that have no row any more.
func timerNames(
	ctx context.Context,
	st Store,
	os []*timer.Outcome,
) (map[timer.ID]string, error) {
	names := make(map[timer.ID]string, len(os))
	for _, o := range os {
		names[o.Timer] = ""
	}
	states, err := st.States(ctx, slices.Collect(maps.Keys(names)))
	if err != nil {
		return nil, fmt.Errorf("reading the timers of outcomes: %w", err)
	}
	for i := range states {
		names[states[i].ID] = states[i].Name
	}
	return names, nil
}

// lastErrors reads the errors of the last attempts of failed fires.
func lastErrors(
	ctx context.Context, st Store, os []*timer.Outcome,
) (map[timer.FireID]string, error) {
	failed := make([]timer.FireID, len(os))
	for i, o := range os {
		failed[i] = o.FireID
	}
	errs, err := st.LastErrors(ctx, failed)
	if err != nil {
		return nil, fmt.Errorf("reading the errors of failed fires: %w", err)
	}
	return errs, nil
}

// targetsOf reads the result of each target from the attempts. It reads definitions only of fires
// with attempts per target, because most timers have one target.
func targetsOf(
	ctx context.Context,
	st Store,
	os []*timer.Outcome,
) (map[timer.FireID][]timer.TargetOutcome, error) {
	var called []timer.FireID
	for i := range os {
		if os[i].Attempts > 0 {
			called = append(called, os[i].FireID)
		}
	}
	if len(called) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	attempts, err := st.TargetAttempts(ctx, called)
	if err != nil {
		return nil, fmt.Errorf("reading the attempts of outcomes: %w", err)
	}
	if len(attempts) == 0 {
		return nil, nil //nolint:nilnil // there is none
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
			if d != nil {
				each[os[i].FireID] = d.Outcomes(os[i].Kind, as)
			}
		}
	}
	return each, nil
}
