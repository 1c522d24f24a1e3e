package outcomeevent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/outcomeevent"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

func TestMessageHasAllOfAnOutcome(t *testing.T) {
	t.Parallel()
	got := new(carillonv1.Outcome)
	b := new(topics)
	e := outcomeevent.Event{Outcome: &timer.Outcome{
		Fire: timer.Fire{
			FireID: timer.FireID{Timer: 7, DueMS: 1000, Series: 3},
		},
		Kind:       timer.Failed,
		Reason:     timer.ReasonExhausted,
		FinishedMS: 2000,
		UntilMS:    1500,
		Count:      4,
		Attempts:   2,
		LatenessMS: 5,
		StatusCode: 503,
		DurationMS: 9,
		Failure:    timer.FailureStatus,
	}, App: "shop", Timer: "send", LastError: "no answer", Targets: []timer.TargetOutcome{
		{
			Index:      0,
			Kind:       timer.Delivered,
			Attempts:   1,
			StatusCode: 204,
		},
		{Index: 1, Kind: timer.Failed, Attempts: 2, StatusCode: 503, Failure: timer.FailureStatus},
	}}
	require.NoError(t,
		outcomeevent.Publish(t.Context(), b, bus.Outcomes, []outcomeevent.Event{e}))
	require.NoError(t, proto.Unmarshal(b.published[bus.Outcomes][0].Payload, got))
	want := &carillonv1.Outcome{
		TimerId:    7,
		DueMs:      1000,
		Series:     3,
		App:        "shop",
		Kind:       "failed",
		Reason:     "exhausted",
		FinishedMs: 2000,
		Attempts:   2,
		LatenessMs: 5,
		StatusCode: 503,
		DurationMs: 9,
		UntilMs:    1500,
		Count:      4,
		Failure:    "status",
		TimerName:  "send",
		Targets: []*carillonv1.TargetOutcome{
			{
				Kind:       "delivered",
				Attempts:   1,
				StatusCode: 204,
			},
			{Index: 1, Kind: "failed", Attempts: 2, StatusCode: 503, Failure: "status"},
		},
	}
	require.True(t, proto.Equal(want, got), "%v", got)
}

// aStore has the results of one fire that both of its targets must accept, of one whose targets are
// alternatives, and no others.
type aStore struct{ asked []timer.FireID }

func (s *aStore) AppsByID(context.Context, []int64) ([]store.App, error) {
	return []store.App{{ID: 1, Name: "shop"}, {ID: 2, Name: timer.ReservedApp}}, nil
}

func (s *aStore) States(_ context.Context, ids []timer.ID) (out []timer.State, err error) {
	for _, id := range ids {
		if id != 4 {
			out = append(out, timer.State{ID: id, Name: "timer-" + id.String()})
		}
	}
	return out, nil
}

func (s *aStore) LastErrors(
	_ context.Context,
	fires []timer.FireID,
) (map[timer.FireID]string, error) {
	return map[timer.FireID]string{fires[0]: "refused"}, nil
}

func (s *aStore) TargetAttempts(
	_ context.Context,
	fires []timer.FireID,
) (out []timer.Attempt, err error) {
	s.asked = fires
	for _, id := range fires[:min(2, len(fires))] {
		out = append(
			out,
			timer.Attempt{FireID: id, N: 1, Target: "1", Failure: timer.FailureTimeout},
			timer.Attempt{FireID: id, N: 1, Target: "log", StatusCode: 200},
			timer.Attempt{FireID: id, N: 2, Target: "1", StatusCode: 204},
		)
	}
	return out, nil
}

func (s *aStore) Definitions(
	_ context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	all := map[store.VersionKey]*timer.Definition{}
	for _, k := range keys {
		d := &timer.Definition{
			Fanout: timer.Fanout{Mode: timer.ModeAny, Targets: []timer.Target{{}, {Name: "log"}}},
		}
		if k == (store.VersionKey{Timer: 1, Version: 3}) {
			d.Mode = timer.ModeAll
		}
		all[k] = d
	}
	return all, nil
}

func TestMessagesListEachTarget(t *testing.T) {
	t.Parallel()
	var os []timer.Outcome
	for id := timer.ID(1); id <= 4; id++ {
		os = append(
			os,
			timer.Outcome{
				Fire: timer.Fire{
					FireID:  timer.FireID{Timer: id, DueMS: 7},
					AppID:   1,
					Version: 3,
				},
				Kind:     timer.Delivered,
				Attempts: 2,
			},
		)
	}
	os[3].Kind, os[3].Attempts = timer.Skipped, 0
	st := new(aStore)
	events, err := outcomeevent.Read(t.Context(), st, bus.Outcomes, os)
	require.NoError(t, err)
	require.Len(t, events, 4)
	b := new(topics)
	require.NoError(t, outcomeevent.Publish(t.Context(), b, bus.Outcomes, events))
	require.Len(t, st.asked, 3, "a fire that was not called has no attempts")
	for i, m := range b.published[bus.Outcomes] {
		got := new(carillonv1.Outcome)
		require.NoError(t, proto.Unmarshal(m.Payload, got))
		want := &carillonv1.Outcome{Targets: []*carillonv1.TargetOutcome{
			{
				Kind:       "delivered",
				Attempts:   2,
				StatusCode: 204,
			},
			{Index: 1, Kind: "delivered", Attempts: 1, StatusCode: 200},
		}}
		if i > 0 {
			want.Targets = nil
		}
		require.Equal(t, []string{"timer-1", "timer-2", "timer-3", ""}[i], got.GetTimerName())
		require.True(
			t,
			proto.Equal(want, &carillonv1.Outcome{Targets: got.GetTargets()}),
			"%v",
			got,
		)
	}
}

func TestFailedFiresHaveDeadLetters(t *testing.T) {
	t.Parallel()
	os := []timer.Outcome{
		{
			Fire:       timer.Fire{FireID: timer.FireID{Timer: 1, DueMS: 7}, AppID: 1, Version: 3},
			Kind:       timer.Failed,
			Reason:     timer.ReasonExhausted,
			Attempts:   2,
			StatusCode: 503,
		},
		{Fire: timer.Fire{FireID: timer.FireID{Timer: 2, DueMS: 7}, AppID: 1}, Kind: timer.Failed},
		{Fire: timer.Fire{FireID: timer.FireID{Timer: 3, DueMS: 7}, AppID: 2}, Kind: timer.Failed},
		{
			Fire: timer.Fire{FireID: timer.FireID{Timer: 4, DueMS: 7}, AppID: 1},
			Kind: timer.Delivered,
		},
	}
	b := new(topics)
	for _, topic := range outcomeevent.Topics() {
		events, err := outcomeevent.Read(t.Context(), new(aStore), topic, os)
		require.NoError(t, err)
		require.NoError(t, outcomeevent.Publish(t.Context(), b, topic, events))
	}
	require.Len(t, b.published[bus.Outcomes], 3, "the canary's is left out")
	letters := b.published[bus.TasksDead]
	require.Len(t, letters, 2)
	got := new(carillonv1.DeadTask)
	require.NoError(t, proto.Unmarshal(letters[0].Payload, got))
	want := &carillonv1.DeadTask{
		Task:       &carillonv1.Task{TimerId: 1, DueMs: 7, AppId: 1, Version: 3},
		App:        "shop",
		Reason:     "exhausted",
		Attempts:   2,
		StatusCode: 503,
		LastError:  "refused",
	}
	require.True(t, proto.Equal(want, got), "%v", got)
	require.Equal(t, "shop", letters[0].Key)
	require.Equal(t, map[string]string{
		bus.PropReason: "exhausted",
		bus.PropFire:   os[0].FireID.String(),
		bus.PropTimer:  "1",
		bus.PropApp:    "shop",
	}, letters[0].Properties)
}

// topics keeps what is published.
type topics struct {
	published map[bus.Topic][]bus.Message
}

func (b *topics) Publish(_ context.Context, to bus.Topic, msgs ...bus.Message) error {
	if b.published == nil {
		b.published = make(map[bus.Topic][]bus.Message)
	}
	b.published[to] = append(b.published[to], msgs...)
	return nil
}
