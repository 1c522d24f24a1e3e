package executor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

func TestP5ChangeReachesExecutorsWithinASecond(t *testing.T) {
	t.Parallel()
	for name, status := range map[timer.Status]timer.OutcomeKind{timer.StatusInactive: timer.Skipped, timer.StatusDeleted: timer.Skipped} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				r := new(receiver)
				start(t, parts, "one", r, nil)
				fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:60]
				// All are claimed at once and in flight.
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				time.Sleep(20*time.Second + 500*time.Millisecond)
				changed, err := parts.Store.SetStatus(t.Context(),
					[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: name}}, parts.Plan)
				require.NoError(t, err)
				require.NoError(t, changed[0].Err)
				off := time.Now() // without a change notification
				time.Sleep(time.Minute)
				_, begun := r.seen()
				for _, at := range begun {
					require.Less(t, at.Sub(off), time.Second)
				}
				if name == timer.StatusInactive {
					kinds := outcomes(t, parts, "a", fires)
					require.Equal(t, 60, kinds[timer.Delivered]+kinds[status])
					require.GreaterOrEqual(t, kinds[status], 38)
				}
			})
		})
	}
}

// lateDefinitions is a store whose reads of definitions fail at first, and then are slow.
type lateDefinitions struct {
	executor.Store
	asked atomic.Int64
	takes time.Duration
}

func (s *lateDefinitions) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	if s.asked.Add(1) == 1 {
		return nil, errCut
	}
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Definitions(ctx, keys)
}

// TestP5HoldsWhileADefinitionIsRead checks that a slow read of a definition does not let the
// timer's state grow too old.
func TestP5HoldsWhileADefinitionIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(
			t,
			parts,
			"one",
			r,
			func(o *executor.Options) { o.Store = &lateDefinitions{Store: parts.Store, takes: 3 * time.Second} },
		)
		fires := parts.Create("a", soon(1, time.Second)...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(1500 * time.Millisecond)
		_, err := parts.Store.SetStatus(
			t.Context(),
			[]store.StatusChange{
				{App: "a", ID: fires[0].Timer, Status: timer.StatusInactive},
			},
			parts.Plan,
		)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Empty(t, r.attempts())
		require.Equal(t, waitsForItsTimer, outcomes(t, parts, "a", fires))
		activate(t, parts, fires)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: 1},
			outcomes(t, parts, "a", fires),
		)
	})
}

// waitsForItsTimer is the expected result of a fire that was due before its timer was deactivated,
// and was not called by then.
//
//nolint:gochecknoglobals // never written
var waitsForItsTimer = map[timer.OutcomeKind]int{"open": 1}

// activate activates the timer of fires again, dispatches its waiting fires, and waits until they
// are called.
func activate(t *testing.T, parts *servicetest.Parts, fires []timer.Fire) {
	t.Helper()
	out, err := parts.Store.SetStatus(
		t.Context(),
		[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: timer.StatusActive}},
		parts.Plan,
	)
	require.NoError(t, err)
	require.NoError(t, parts.Dispatch.Publish(t.Context(), out[0].Fires))
	time.Sleep(20 * time.Second)
}

// slowAnswers is a store whose reads after a timer's state are slow.
type slowAnswers struct {
	executor.Store
	app, turn time.Duration
}

func (s *slowAnswers) AppsByID(ctx context.Context, ids []int64) ([]store.App, error) {
	time.Sleep(s.app)
	return s.Store.AppsByID(ctx, ids)
}

func (s *slowAnswers) AcquireSlots(
	ctx context.Context,
	session timer.ID,
	entries []store.SlotRequest,
) ([]store.SlotResult, error) {
	time.Sleep(s.turn)
	return s.Store.AcquireSlots(ctx, session, entries)
}

// TestP5HoldsWhileAppOrSlotIsRead checks that slow reads after a timer's state do not let that
// state grow too old, and that fires of an unchanged timer are called.
func TestP5HoldsWhileAppOrSlotIsRead(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]slowAnswers{"app": {app: 2 * time.Second}, "turn": {turn: 2 * time.Second}} {
		for _, status := range []timer.Status{timer.StatusInactive, timer.StatusActive} {
			t.Run(fmt.Sprintf("%s, %s", name, status), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					parts := servicetest.New(t, servicetest.Options{})
					r := new(receiver)
					start(t, parts, "one", r, func(o *executor.Options) {
						o.Store = &slowAnswers{parts.Store, slow.app, slow.turn}
					})
					timers := soon(1, time.Second)
					timers[0].Concurrency.Policy = timer.ConcurrencyQueueAll
					fires := parts.Create("a", timers...)
					require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
					time.Sleep(1500 * time.Millisecond) // due, and being decided
					_, err := parts.Store.SetStatus(
						t.Context(),
						[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: status}},
						parts.Plan,
					)
					require.NoError(t, err)
					time.Sleep(10 * time.Second)
					if status == timer.StatusInactive {
						require.Empty(t, r.attempts())
						require.Equal(t, waitsForItsTimer, outcomes(t, parts, "a", fires))
						activate(t, parts, fires)
					}
					require.Len(t, r.attempts(), 1)
					require.Equal(
						t,
						map[timer.OutcomeKind]int{timer.Delivered: 1},
						outcomes(t, parts, "a", fires),
					)
				})
			})
		}
	}
}

// slowOnce is a store that is slow to grant the first slot.
type slowOnce struct {
	executor.Store
	takes time.Duration
	once  sync.Once
}

func (s *slowOnce) AcquireSlots(
	ctx context.Context,
	session timer.ID,
	entries []store.SlotRequest,
) ([]store.SlotResult, error) {
	s.once.Do(func() { time.Sleep(s.takes) })
	return s.Store.AcquireSlots(ctx, session, entries)
}

// TestEditDuringADecisionDelaysNothing checks that a fire whose timer is edited while it acquires
// its slot, and that stays due, is decided again and called at once.
func TestEditDuringADecisionDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const takes = 1200 * time.Millisecond // by then the state is too old
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(
			t,
			parts,
			"one",
			r,
			func(o *executor.Options) { o.Store = &slowOnce{Store: parts.Store, takes: takes} },
		)
		timers := soon(1, time.Second)
		timers[0].Concurrency.Policy = timer.ConcurrencyQueueAll
		fires := parts.Create("a", timers...)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(1500 * time.Millisecond) // due, and being decided
		edited := timers[0]
		edited.Labels = map[string]string{"edited": "yes"}
		made, err := parts.Store.Edit(
			t.Context(),
			[]store.Edit{{App: "a", ID: fires[0].Timer, Definition: edited}},
			parts.Plan,
		)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		time.Sleep(10 * time.Second)
		_, at := r.seen()
		require.Len(t, at, 1)
		require.Less(t, at[0].Sub(time.UnixMilli(fires[0].DueMS)), takes+100*time.Millisecond)
	})
}

// slowGate stalls once between the decision and the request.
type slowGate struct {
	limit.Admission
	once sync.Once
}

func (g *slowGate) Start(a limit.Ask) limit.Decision {
	g.once.Do(func() { time.Sleep(2 * time.Second) })
	return g.Admission.Start(a)
}

// TestP5HoldsForProcessStalledBeforeTheRequest checks that a process stalled between the decision
// and the request decides again.
func TestP5HoldsForProcessStalledBeforeTheRequest(t *testing.T) {
	t.Parallel()
	for status, want := range map[timer.Status]timer.OutcomeKind{timer.StatusInactive: "open", timer.StatusActive: timer.Delivered} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				r := new(receiver)
				start(
					t,
					parts,
					"one",
					r,
					func(o *executor.Options) { o.Limits = &slowGate{Admission: o.Limits} },
				)
				fires := parts.Create("a", soon(1, time.Second)...)
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				time.Sleep(1500 * time.Millisecond) // decided
				_, err := parts.Store.SetStatus(
					t.Context(),
					[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: status}},
					parts.Plan,
				)
				require.NoError(t, err)
				time.Sleep(10 * time.Second)
				require.Equal(t, map[timer.OutcomeKind]int{want: 1}, outcomes(t, parts, "a", fires))
				require.Equal(t, status == timer.StatusActive, len(r.attempts()) == 1)
				if status != timer.StatusActive {
					activate(t, parts, fires)
				}
				require.Equal(
					t,
					map[timer.OutcomeKind]int{timer.Delivered: 1},
					outcomes(t, parts, "a", fires),
				)
				require.Len(t, r.attempts(), 1)
			})
		})
	}
}

func TestFireOfAnEarlierActivationIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:10]
		set := func(s timer.Status) {
			_, err := parts.Store.SetStatus(
				t.Context(),
				[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: s}},
				parts.Plan,
			)
			require.NoError(t, err)
		}
		set(timer.StatusInactive)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		set(timer.StatusActive)
		start(t, parts, "one", r, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(20 * time.Second)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Skipped: 6, timer.Delivered: 4},
			outcomes(t, parts, "a", fires),
		)
	})
}

// TestP2FireJustAfterAnActivationIsCalled checks that a fire due just after an activation is
// called, whether or not the executor knows of the activation. Its knowledge of timers may be a
// second old.
func TestP2FireJustAfterAnActivationIsCalled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		r := new(receiver)
		start(t, parts, "one", r, nil)
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:60]
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		set := func(s timer.Status) {
			_, err := parts.Store.SetStatus(
				t.Context(),
				[]store.StatusChange{{App: "a", ID: fires[0].Timer, Status: s}},
				parts.Plan,
			)
			require.NoError(t, err)
		}
		var owed []timer.Fire
		for i := 5; i < 55; i += 5 {
			f := fires[i]
			time.Sleep(time.Until(time.UnixMilli(f.DueMS - 2500)))
			set(timer.StatusInactive)
			time.Sleep(time.Until(time.UnixMilli(f.DueMS - int64(i))))
			set(timer.StatusActive) // without a change notification
			owed = append(owed, f)
		}
		time.Sleep(time.Minute)
		require.Equal(
			t,
			map[timer.OutcomeKind]int{timer.Delivered: len(owed)},
			outcomes(t, parts, "a", owed),
		)
	})
}
