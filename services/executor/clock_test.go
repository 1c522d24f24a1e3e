package executor_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// TestP1SkewedClock changes an executor's clock while fires are due ten times a second. No fire may
// be early by the true clock. None may be later than the executor takes to read its clock (100 ms)
// and to measure it.
func TestP1SkewedClock(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string][]time.Duration{
		"ahead":   {2 * time.Second},
		"behind":  {-2 * time.Second},
		"jumping": {2 * time.Second, -2 * time.Second, 0, time.Hour, 300 * time.Millisecond, -time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				host := new(clock.Host)
				c := clock.New(host.Now, parts.Store.Now)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = c.Run(ctx) })
				defer running.Wait()
				defer cancel()
				r := &receiver{}
				start(t, parts, "one", r, func(o *executor.Options) { o.Clock = c })

				began := time.Now().Truncate(time.Second).Add(5 * time.Second)
				defs := servicetest.Every(
					began,
					100*time.Millisecond,
					100*(len(wrong)+1),
					"http://127.0.0.1/",
				)
				fires := parts.Create("a", defs...)
				parts.Dispatch.Committed(t.Context(), fires)
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				time.Sleep(time.Until(began.Add(5055 * time.Millisecond)))
				for _, by := range wrong {
					host.Set(by)
					time.Sleep(10 * time.Second)
				}
				time.Sleep(10 * time.Second)

				calls, at := r.seen()
				require.Len(t, calls, len(fires))
				for i, call := range calls {
					late := at[i].Sub(time.UnixMilli(call.PlannedMS))
					require.GreaterOrEqual(t, late, time.Duration(0), "early by the true clock")
					require.LessOrEqual(t, late, 150*time.Millisecond)
					require.GreaterOrEqual(
						t,
						call.Start.UnixMilli(),
						call.PlannedMS,
						"early by its own clock",
					)
					require.WithinDuration(t, at[i], call.Start, 150*time.Millisecond)
				}
			})
		})
	}
}

// TestASuspendedHostCallsByNewsOnly checks that an executor whose host was suspended calls nothing
// by what it knew before. Its monotonic clock did not advance, so its session and its states look
// recent. Only the jump of its wall clock tells.
func TestASuspendedHostCallsByNewsOnly(t *testing.T) {
	t.Parallel()
	for name, suspended := range map[string]struct {
		meanwhile func(*servicetest.Parts, []timer.Fire)
		paused    bool
	}{
		"nothing happened":   {meanwhile: func(*servicetest.Parts, []timer.Fire) {}},
		"session expired":    {meanwhile: expireOldest},
		"timers were paused": {meanwhile: pauseAll, paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				host := new(clock.Host)
				c := clock.New(host.Now, parts.Store.Now)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = c.Run(ctx) })
				defer running.Wait()
				defer cancel()
				one, other := new(receiver), new(receiver)
				start(t, parts, "one", one, func(o *executor.Options) { o.Clock = c })
				fires := parts.Create("a", soon(1000, 3*time.Second)...)
				require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				time.Sleep(time.Second)
				start(t, parts, "other", other, nil)

				time.Sleep(2*time.Second + 100*time.Millisecond + 500*time.Microsecond)
				before := one.total()
				require.Less(t, before, 200)
				require.NotZero(t, before)
				suspended.meanwhile(parts, fires)
				host.Jump(time.Minute)
				time.Sleep(10 * time.Second)
				want := len(fires)
				if suspended.paused {
					want = before
				}
				require.Equal(t, want, one.total()+other.total())
			})
		})
	}
}

// expireOldest expires the session that was opened first, as the monitor of another process does.
func expireOldest(p *servicetest.Parts, _ []timer.Fire) {
	live, err := p.Store.LiveSessions(p.T.Context())
	require.NoError(p.T, err)
	require.Len(p.T, live, 2)
	s := slices.MinFunc(live, func(a, b store.Session) int { return cmp.Compare(a.ID, b.ID) })
	expired, err := p.Store.ExpireSession(p.T.Context(), s.ID, s.Renewals)
	require.NoError(p.T, err)
	require.True(p.T, expired)
}

func pauseAll(p *servicetest.Parts, fires []timer.Fire) {
	changes := make([]store.StatusChange, len(fires))
	for i, f := range fires {
		changes[i] = store.StatusChange{App: "a", ID: f.Timer, Status: timer.StatusPaused}
	}
	_, err := p.Store.SetStatus(p.T.Context(), changes, p.Plan)
	require.NoError(p.T, err)
}
