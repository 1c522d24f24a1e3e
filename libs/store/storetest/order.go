package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// openAmong reads more fires than one statement takes, of two timers, some of them open.
func openAmong(t *testing.T, s *setup) {
	base := s.nowMS() - time.Hour.Milliseconds()
	const n = store.MaxBatch
	var dues []int64
	for i := range int64(n) {
		dues = append(dues, base+2*i)
	}
	var asked []timer.FireID
	var open []timer.Fire
	session := s.session()
	for range 2 {
		active := s.newTimer()
		active.Activate = true
		made := s.create(active, planAt(0, dues...))
		for i := range int64(2 * n) { // every other one does not exist
			asked = append(asked, timer.FireID{Timer: made.Timer.ID, DueMS: base + i})
		}
		won := s.claim(session, made.Fires[:2])
		lost, _, err := s.st().
			Record(t.Context(), session, []timer.Outcome{delivered(won[0], base)}, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
		open = append(open, won[1])
		open = append(open, made.Fires[2:]...)
	}
	got, err := s.st().OpenAmong(t.Context(), asked)
	require.NoError(t, err)
	require.ElementsMatch(t, open, got)
	got, err = s.st().OpenAmong(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

// beginWritesLateness calls Begin for fires in every state.
func beginWritesLateness(t *testing.T, s *setup) {
	ctx := t.Context()
	a, b := s.session(), s.session()
	fires := s.fires(6, s.nowMS()-time.Hour.Milliseconds())
	won := s.claim(a, fires[:5])
	begun := append([]timer.Fire(nil), fires...)
	for i := range begun {
		begun[i].FirstLatenessMS, begun[i].Attempt, begun[i].RunAtMS = 77, 5, 1 // only the first is written
	}
	held := won[0]
	held.Attempt, held.State, held.FirstLatenessMS = 1, timer.FireRetrying, 5
	_, err := s.st().RecordAttempts(ctx, a, []timer.Fire{held}, nil)
	require.NoError(t, err)
	released, err := s.st().Release(ctx, a, won[1:3], nil)
	require.NoError(t, err)
	other := s.claim(b, released[1:])
	lost, _, err := s.st().Record(ctx, a, []timer.Outcome{delivered(won[3], s.nowMS())}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	noted := won[4]
	noted.FirstLatenessMS = 77
	for range 2 {
		require.NoError(t, s.st().Begin(ctx, a, append(begun, begun[0])))
		got, err := s.st().OpenAmong(ctx, ids(fires))
		require.NoError(t, err)
		require.ElementsMatch(t, []timer.Fire{held, released[0], other[0], noted, fires[5]}, got)
	}
	require.NoError(t, s.st().Begin(ctx, a, nil))
	s.expireSession(a)
	won = s.claim(b, fires[4:5])
	require.Equal(t, int64(77), won[0].FirstLatenessMS, "the next owner sees it")
}
