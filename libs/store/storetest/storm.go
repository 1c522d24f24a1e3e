package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Storm works on stores that misbehave: they fail before or after the commit, and are slow.
// Executors start and expire, and repeat every call until it succeeds. In the end every timer
// exists once and every fire has one outcome, recorded by an executor that owned the fire as far as
// it knew.
func Storm(t *testing.T, stores []store.Store, seed uint64) {
	t.Helper()
	const timers, workers = 40, 6
	w := &storm{setup: newSetup(t, Env{Stores: stores}), recorded: map[timer.FireID]timer.ID{}}
	w.make(timers)
	require.Len(t, w.expand(), timers*2)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for i := range workers {
		wait.Go(func() {
			//nolint:gosec // repeatable
			w.work(ctx, stores[i%len(stores)], rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	wait.Wait()
	require.NoError(t, ctx.Err(), "the storm did not end")
	w.check(timers)
}

type storm struct {
	*setup

	fires    []timer.Fire
	mu       sync.Mutex
	recorded map[timer.FireID]timer.ID // the session that recorded each fire
}

// untilSuccess repeats a call until it succeeds. Only unavailable may be repeated.
func untilSuccess(ctx context.Context, t *testing.T, call func() error) bool {
	for ctx.Err() == nil {
		err := call()
		if err == nil {
			return true
		}
		if timer.CodeOf(err) != timer.CodeUnavailable {
			t.Error(err)
			return false
		}
	}
	return false
}

// make creates timers and repeats each call with its idempotency keys.
func (w *storm) make(n int) {
	w.t.Helper()
	var items []store.NewTimer
	for i := range n {
		items = append(items, store.NewTimer{
			App:            "app",
			Name:           fmt.Sprint("storm", i),
			Definition:     definition("http://a"),
			IdempotencyKey: fmt.Sprint("k", i),
			RequestHash:    []byte("r"),
		})
	}
	var changes []store.StatusChange
	require.True(w.t, untilSuccess(w.t.Context(), w.t, func() error {
		out, err := w.st().Create(w.t.Context(), items, noFires)
		changes = nil
		for _, c := range out {
			require.NoError(w.t, c.Err)
			changes = append(
				changes,
				store.StatusChange{App: "app", ID: c.Timer.ID, Status: timer.StatusActive},
			)
		}
		return err
	}))
	plan := func(t *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{NextDueMS: t.NextDueMS, ExpandAtMS: nowMS}
	}
	require.True(w.t, untilSuccess(w.t.Context(), w.t, func() error {
		_, err := w.st().SetStatus(w.t.Context(), changes, plan)
		return err
	}))
}

// expand expands until nothing is left. It reads back from the slice what a failed call has
// committed.
func (w *storm) expand() []timer.Fire {
	w.t.Helper()
	due := w.nowMSAgain()
	for {
		n := 0
		if !untilSuccess(w.t.Context(), w.t, func() error {
			var err error
			_, n, err = w.st().Expand(w.t.Context(), 9, planAt(0, due, due+1))
			return err
		}) {
			return nil
		}
		if n == 0 {
			break
		}
	}
	require.True(w.t, untilSuccess(w.t.Context(), w.t, func() error {
		var err error
		w.fires, err = w.st().
			LoadSlice(w.t.Context(), timer.MinuteOf(due), 0, store.Position{}, timer.NeverMS, 1000)
		return err
	}))
	return w.fires
}

func (w *storm) nowMSAgain() (ms int64) {
	untilSuccess(w.t.Context(), w.t, func() error {
		at, err := w.st().Now(w.t.Context())
		// This is the start of a minute, so that two instants lie in one slice.
		ms = timer.MinuteOf(at.UnixMilli()) * timer.MinuteMS
		return err
	})
	return ms
}

// work is one executor, which opens a new session whenever the last one has expired.
func (w *storm) work(ctx context.Context, st store.Store, rnd *rand.Rand) {
	for life := 0; ctx.Err() == nil; life++ {
		session := w.ids.Next()
		if !untilSuccess(ctx, w.t, func() error {
			err := st.OpenSession(
				ctx,
				store.Session{ID: session, Kind: store.ExecutorSession, Name: "storm"},
			)
			if timer.CodeOf(err) == timer.CodeConflict {
				return nil // its own: the answer of an earlier call was lost
			}
			return err
		}) {
			return
		}
		if w.runExecutor(ctx, st, session, rnd, life < 3) {
			return
		}
		untilSuccess(ctx, w.t, func() error { return st.CloseSession(ctx, session) })
	}
}

// runExecutor claims and records until nothing is open, and then returns true, or until it expires
// with fires in flight.
func (w *storm) runExecutor(
	ctx context.Context,
	st store.Store,
	session timer.ID,
	rnd *rand.Rand,
	expires bool,
) bool {
	for ctx.Err() == nil {
		pending := w.pending()
		if len(pending) == 0 {
			return true
		}
		rnd.Shuffle(
			len(pending),
			func(i, j int) { pending[i], pending[j] = pending[j], pending[i] },
		)
		open := w.open(ctx, st, pending[:min(len(pending), 8)])
		var won []timer.Fire
		if !untilSuccess(ctx, w.t, func() (err error) {
			won, err = st.Claim(ctx, session, open)
			return err
		}) {
			return false
		}
		if expires && rnd.IntN(4) == 0 {
			return false
		}
		w.finish(ctx, st, session, won, rnd)
	}
	return false
}

// pending returns the fires that nobody has recorded yet, claimed or not: a task may come for any
// of them.
func (w *storm) pending() []timer.FireID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []timer.FireID
	for _, f := range w.fires {
		if _, done := w.recorded[f.FireID]; !done {
			ids = append(ids, f.FireID)
		}
	}
	return ids
}

// open returns those fires that have no outcome.
func (w *storm) open(ctx context.Context, st store.Store, ids []timer.FireID) []timer.Fire {
	var open []timer.Fire
	for _, id := range ids {
		untilSuccess(ctx, w.t, func() error {
			rec, err := st.Fire(ctx, "app", id)
			if err == nil && rec.Open != nil {
				open = append(open, *rec.Open)
			}
			return err
		})
	}
	return open
}

// finish records some fires and releases the others.
func (w *storm) finish(
	ctx context.Context,
	st store.Store,
	session timer.ID,
	won []timer.Fire,
	rnd *rand.Rand,
) {
	cut := rnd.IntN(len(won) + 1)
	var outcomes []timer.Outcome
	for _, f := range won[:cut] {
		o := delivered(f, f.DueMS+1)
		o.Serial = f.Timer%2 == 0 // use both ways of recording
		outcomes = append(outcomes, o)
	}
	var lost []timer.FireID
	if !untilSuccess(ctx, w.t, func() (err error) {
		lost, _, err = st.Record(ctx, session, outcomes, nil)
		return err
	}) {
		return
	}
	untilSuccess(ctx, w.t, func() error {
		_, err := st.Release(ctx, session, won[cut:], nil)
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := map[timer.FireID]bool{}
	for _, id := range lost {
		gone[id] = true
	}
	for _, o := range outcomes {
		if gone[o.FireID] {
			continue
		}
		if by, twice := w.recorded[o.FireID]; twice {
			w.t.Errorf("%v was recorded by %v and by %v", o.FireID, by, session)
		}
		w.recorded[o.FireID] = session
	}
}

func (w *storm) check(timers int) {
	w.t.Helper()
	seen := map[timer.ID]bool{}
	for _, f := range w.fires {
		seen[f.Timer] = true
		var rec store.FireRecord
		var history []timer.Outcome
		require.True(w.t, untilSuccess(w.t.Context(), w.t, func() (err error) {
			rec, err = w.st().Fire(w.t.Context(), "app", f.FireID)
			return err
		}))
		require.True(w.t, untilSuccess(w.t.Context(), w.t, func() (err error) {
			history, err = w.st().History(w.t.Context(), "app", f.Timer, timer.FireID{}, 10)
			return err
		}))
		require.Nil(w.t, rec.Open)
		require.NotNil(w.t, rec.Outcome)
		require.Equal(w.t, w.recorded[f.FireID], rec.Outcome.Owner)
		require.Len(w.t, history, 2, "one outcome for each of its two fires")
	}
	require.Len(w.t, seen, timers)
}
