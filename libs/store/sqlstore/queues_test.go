package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestQueueIsCleanedOnce counts how many rows one outcome removes from a queue of finished fires:
// each once. Meanwhile it occupies SQLite's only writer, or locks the timer's row.
func TestQueueIsCleanedOnce(t *testing.T) {
	t.Parallel()
	const waiting = 1500
	s := openSQLite(t, sqlstore.SQLiteOptions{})
	ctx := t.Context()
	at, err := s.Now(ctx)
	require.NoError(t, err)
	now := at.UnixMilli()
	require.NoError(
		t,
		s.OpenSession(ctx, store.Session{ID: 11, Kind: store.ExecutorSession, Name: "a"}),
	)
	made, err := s.Create(
		ctx,
		[]store.NewTimer{{App: "app", Name: "t", Activate: true}},
		func(tm *timer.Timer, _ int64) store.Plan {
			p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			for i := range int64(waiting + 2) {
				p.Fires = append(
					p.Fires,
					timer.Fire{
						FireID:  timer.FireID{Timer: tm.ID, DueMS: now + i},
						RunAtMS: now + i,
					},
				)
			}
			return p
		},
	)
	require.NoError(t, err)
	enter := func(fires []timer.Fire) (waits []timer.Fire) {
		t.Helper()
		requests := make([]store.SlotRequest, len(fires))
		for i := range fires {
			requests[i] = store.SlotRequest{
				Fire: fires[i],
				Concurrency: timer.Concurrency{
					Policy:   timer.ConcurrencyQueueAll,
					MaxQueue: timer.MaxMaxQueue,
				},
			}
		}
		out, err := s.AcquireSlots(ctx, 11, requests)
		require.NoError(t, err)
		for i := range out {
			if out[i].SlotVerdict == store.SlotQueued {
				waits = append(waits, out[i].Fire)
			}
		}
		return waits
	}
	outcome := func(f timer.Fire, serial bool) timer.Outcome {
		return timer.Outcome{
			Fire:       f,
			Kind:       timer.Delivered,
			FinishedMS: now,
			UntilMS:    f.DueMS,
			Count:      1,
			Serial:     serial,
		}
	}
	won, err := s.Claim(ctx, 11, made[0].Fires)
	require.NoError(t, err)
	waits := enter(won)
	require.Len(t, waits, waiting+1)

	// A later version lets its fires run together, so they finish without leaving the queue.
	ends, err := s.Claim(ctx, 11, waits[:waiting])
	require.NoError(t, err)
	var outcomes []timer.Outcome
	for _, f := range ends {
		outcomes = append(outcomes, outcome(f, false))
	}
	lost, _, err := s.Record(ctx, 11, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)

	statements, dequeued := 0, 0
	s.OnStatement(func(text string) {
		if statements++; strings.HasPrefix(text, "DELETE FROM slot_queue") {
			dequeued += strings.Count(text, "(") - 2
		}
	})
	_, next, err := s.Record(ctx, 11, []timer.Outcome{outcome(won[0], true)}, nil)
	require.NoError(t, err)
	require.Len(t, next, 1)
	require.Equal(t, waits[waiting].FireID, next[0].FireID)
	require.Less(t, dequeued, waiting+10)
	require.Less(t, statements, 40)
	s.OnStatement(nil)
	n, err := s.Exec(ctx, "DELETE FROM slot_queue")
	require.NoError(t, err)
	require.Zero(t, n)
}
