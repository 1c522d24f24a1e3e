package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// concurrentSlots lets many sessions work through queues. Two fires of a timer never run at once,
// and each runs once, although sessions expire with a slot.
func concurrentSlots(t *testing.T, s *setup) {
	const timers, each, workers = 3, 12, 6
	w := &slotStorm{
		setup:   s,
		baseMS:  s.nowMS() - time.Hour.Milliseconds(),
		todo:    map[timer.FireID]bool{},
		calling: map[timer.ID]timer.FireID{},
	}
	w.policy = timer.Concurrency{Policy: timer.ConcurrencyQueueAll, MaxQueue: each}
	var dues []int64
	for i := range int64(each) {
		dues = append(dues, w.baseMS+i)
	}
	for range timers {
		item := s.newTimer()
		item.Activate = true
		for _, f := range s.create(item, planAt(0, dues...)).Fires {
			w.todo[f.FireID] = true
		}
	}
	s.together(workers, func(ctx context.Context, i int, st store.Store) error {
		for life := 0; ; life++ {
			session := s.ids.Next()
			if err := st.OpenSession(
				ctx,
				store.Session{ID: session, Kind: store.ExecutorSession, Name: "results"},
			); err != nil {
				return err
			}
			done, err := w.runExecutor(ctx, st, session, life < 3, i%2 == 0)
			if err != nil || done {
				return err
			}
			if err := st.CloseSession(ctx, session); err != nil {
				return err
			}
		}
	})
	require.Empty(t, w.todo)
}

type slotStorm struct {
	*setup

	baseMS  int64
	policy  timer.Concurrency
	mu      sync.Mutex
	todo    map[timer.FireID]bool
	calling map[timer.ID]timer.FireID
}

// runExecutor works until nothing is open, and then returns true. If expires is set, it stops after
// three rounds, and with abandons it keeps its last claims.
func (w *slotStorm) runExecutor(
	ctx context.Context,
	st store.Store,
	session timer.ID,
	expires, abandons bool,
) (done bool, err error) {
	for round := 0; !expires || round < 3; round++ {
		open, left, err := w.open(ctx, st)
		if err != nil || !left {
			return true, err
		}
		won, err := st.Claim(ctx, session, open)
		if err != nil {
			return false, err
		}
		requests := make([]store.SlotRequest, len(won))
		for i, f := range won {
			f.RunAtMS = w.baseMS
			requests[i] = store.SlotRequest{Fire: f, Concurrency: w.policy}
		}
		results, err := st.AcquireSlots(ctx, session, requests)
		if err != nil || expires && abandons && round == 2 {
			return false, err
		}
		if err := w.call(ctx, st, session, requests, results); err != nil {
			return false, err
		}
	}
	return false, nil
}

// open returns some fires without an outcome, and whether there are any.
func (w *slotStorm) open(
	ctx context.Context,
	st store.Store,
) (open []timer.Fire, left bool, err error) {
	w.mu.Lock()
	var ids []timer.FireID
	for id := range w.todo {
		if ids = append(ids, id); len(ids) == 5 {
			break
		}
	}
	w.mu.Unlock()
	for _, id := range ids {
		rec, err := st.Fire(ctx, "app", id)
		if err != nil {
			return nil, true, err
		}
		if rec.Open != nil {
			open = append(open, *rec.Open)
		}
	}
	return open, len(ids) > 0, nil
}

// call records the fires that have the slot.
func (w *slotStorm) call(
	ctx context.Context,
	st store.Store,
	session timer.ID,
	requests []store.SlotRequest,
	results []store.SlotResult,
) error {
	var outcomes []timer.Outcome
	w.mu.Lock()
	for i, result := range results {
		id := requests[i].Fire.FireID
		if result.SlotVerdict != store.SlotGranted {
			continue
		}
		if by, taken := w.calling[id.Timer]; taken {
			w.t.Errorf("%v and %v at once", by, id)
		}
		w.calling[id.Timer] = id
		o := delivered(requests[i].Fire, w.baseMS)
		o.Serial = true
		outcomes = append(outcomes, o)
	}
	w.mu.Unlock()
	_, err := st.Now(ctx) // the call
	if err != nil {
		return err
	}
	w.mu.Lock()
	for _, o := range outcomes {
		delete(w.calling, o.Timer)
	}
	w.mu.Unlock()
	lost, _, err := st.Record(ctx, session, outcomes, nil)
	if len(lost) > 0 {
		w.t.Errorf("lost %v", lost)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range outcomes {
		delete(w.todo, o.FireID)
	}
	return err
}
