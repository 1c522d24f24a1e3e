package storetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// metered creates n timers with metrics, and returns those that are not refused.
func (s *setup) metered(n int) (made []timer.Timer) {
	s.t.Helper()
	for n > 0 {
		items := make([]store.NewTimer, min(n, store.MaxBatch))
		for i := range items {
			items[i] = s.newTimer()
			items[i].Definition.Metrics = true
		}
		n -= len(items)
		out, err := s.st().Create(s.t.Context(), items, noFires)
		require.NoError(s.t, err)
		for i := range out {
			if out[i].Err == nil {
				made = append(made, out[i].Timer)
				continue
			}
			require.Equal(s.t, store.TooManyMetered(), out[i].Err)
		}
	}
	return made
}

func metricsAreBounded(t *testing.T, s *setup) {
	t.Helper()
	ctx := t.Context()
	plain := s.create(s.newTimer(), noFires).Timer
	made := s.metered(store.MaxMeteredTimers + 2)
	require.Len(t, made, store.MaxMeteredTimers)
	with := plain.Definition
	with.Metrics = true
	edit := func(tm timer.Timer, d timer.Definition) error {
		t.Helper()
		out, err := s.st().Edit(ctx, []store.Edit{{App: tm.App, ID: tm.ID, Definition: d}}, noFires)
		require.NoError(t, err)
		return out[0].Err
	}
	require.Equal(t, store.TooManyMetered(), edit(plain, with))
	got, err := s.st().Timer(ctx, plain.App, plain.ID)
	require.NoError(t, err)
	require.Equal(t, plain, got, "a refused edit changes nothing")
	other := made[0].Definition
	other.Labels = map[string]string{"a": "b"}
	require.NoError(t, edit(made[0], other), "it has metrics already")

	other.Metrics = false
	require.NoError(t, edit(made[0], other))
	require.NoError(t, edit(plain, with), "there is room")
	require.Empty(t, s.metered(1))
	gone, err := s.st().SetStatus(ctx, []store.StatusChange{
		{App: made[1].App, ID: made[1].ID, Status: timer.StatusDeleted},
	}, noFires)
	require.NoError(t, err)
	require.NoError(t, gone[0].Err)
	require.Len(t, s.metered(2), 1)
}

// concurrentMetrics creates and edits at the bound, from all stores at once.
func concurrentMetrics(t *testing.T, s *setup) {
	t.Helper()
	const calls, room = 12, 5
	require.Len(t, s.metered(store.MaxMeteredTimers-room), store.MaxMeteredTimers-room)
	plain := make([]timer.Timer, calls)
	for i := range plain {
		plain[i] = s.create(s.newTimer(), noFires).Timer
	}
	var got atomic.Int64
	s.together(2*calls, func(ctx context.Context, i int, st store.Store) error {
		var refused error
		if i < calls {
			d := plain[i].Definition
			d.Metrics = true
			e := store.Edit{App: plain[i].App, ID: plain[i].ID, Definition: d}
			out, err := st.Edit(ctx, []store.Edit{e}, noFires)
			if err != nil {
				return err //nolint:wrapcheck // the test tells it
			}
			refused = out[0].Err
		} else {
			n := s.newTimer()
			n.Definition.Metrics = true
			out, err := st.Create(ctx, []store.NewTimer{n}, noFires)
			if err != nil {
				return err //nolint:wrapcheck // the test tells it
			}
			refused = out[0].Err
		}
		if refused == nil {
			got.Add(1)
		} else if timer.CodeOf(refused) != timer.CodeInvalid {
			return refused
		}
		return nil
	})
	require.EqualValues(t, room, got.Load())
}
