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

// Event is what is published about an outcome.
type Event struct {
	Outcome    *timer.Outcome
	App, Timer string
	Message    bus.Message  // on the outcomes topic
	DeadLetter *bus.Message // on the topic of dead letters; nil: the fire has not failed
}

// New returns the event of an outcome of an app's timer of the given name, with a result per target
// if all targets must accept the fire. lastError is the error of the last attempt of a failed fire.
// The same outcome always has the same message on the outcomes topic, and consumers drop duplicates
// by fire id.
func New(o *timer.Outcome, app, name, lastError string, each []timer.TargetOutcome) Event {
	e := Event{Outcome: o, App: app, Timer: name, Message: message(o, app, name, each)}
	if o.Kind == timer.Failed {
		m := deadLetter(o, app, lastError)
		e.DeadLetter = &m
	}
	return e
}

// PublishDeadLetters publishes those of the events on the topic of dead letters.
func PublishDeadLetters(ctx context.Context, b bus.Publisher, es []Event) error {
	var msgs []bus.Message
	for i := range es {
		if es[i].DeadLetter != nil {
			msgs = append(msgs, *es[i].DeadLetter)
		}
	}
	return publish(ctx, b, bus.TasksDead, msgs)
}

// PublishOutcomes publishes events on the outcomes topic.
func PublishOutcomes(ctx context.Context, b bus.Publisher, es []Event) error {
	msgs := make([]bus.Message, len(es))
	for i := range es {
		msgs[i] = es[i].Message
	}
	return publish(ctx, b, bus.Outcomes, msgs)
}

func publish(ctx context.Context, b bus.Publisher, to bus.Topic, msgs []bus.Message) error {
	if len(msgs) == 0 {
		return nil
	}
	return b.Publish(ctx, to, msgs...) //nolint:wrapcheck // the bus names the topic
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

// Events returns the events of stored outcomes. It reads the names of their apps and timers, and
// leaves out the canary's.
func Events(ctx context.Context, st Store, os []timer.Outcome) ([]Event, error) {
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
	timers, err := timerNames(ctx, st, os)
	if err != nil {
		return nil, err
	}
	each, err := targetsOf(ctx, st, os)
	if err != nil {
		return nil, err
	}
	lastErrors, err := lastErrorsOf(ctx, st, os)
	if err != nil {
		return nil, err
	}
	events := make([]Event, 0, len(os))
	for i := range os {
		o := &os[i]
		if app := names[o.AppID]; app != timer.ReservedApp {
			id := o.FireID
			events = append(events, New(o, app, timers[o.Timer], lastErrors[id], each[id]))
		}
	}
	return events, nil
}

// timerNames reads the names of timers. It leaves out those that have no row any more.
func timerNames(
	ctx context.Context,
	st Store,
	os []timer.Outcome,
) (map[timer.ID]string, error) {
	names := make(map[timer.ID]string, len(os))
	for i := range os {
		names[os[i].Timer] = ""
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

// lastErrorsOf reads the errors of the last attempts of failed fires.
func lastErrorsOf(
	ctx context.Context,
	st Store,
	os []timer.Outcome,
) (map[timer.FireID]string, error) {
	var failed []timer.FireID
	for i := range os {
		if os[i].Kind == timer.Failed {
			failed = append(failed, os[i].FireID)
		}
	}
	if len(failed) == 0 {
		return nil, nil //nolint:nilnil // there is none
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
	os []timer.Outcome,
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
