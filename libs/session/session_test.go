package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// table is a sessions table whose connection can be lost.
type table struct {
	mu          sync.Mutex
	rows        map[timer.ID]*store.Session
	unavailable bool // renewals fail
	away        bool // polls fail
	stuck       int  // so many renewals from now on get no answer
}

var errCut = errors.New("connection lost")

func (s *table) OpenSession(_ context.Context, begun store.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unavailable {
		return errCut
	}
	if s.rows[begun.ID] != nil {
		return timer.Conflict("id", "taken")
	}
	s.rows[begun.ID] = &begun
	return nil
}

func (s *table) RenewSession(ctx context.Context, id timer.ID, load store.Load) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck > 0 {
		s.stuck--
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return false, errCut
	}
	if s.unavailable {
		return false, errCut
	}
	r := s.rows[id]
	if r == nil {
		return false, nil
	}
	r.Renewals++
	r.Load = load
	return true, nil
}

func (s *table) LiveSessions(context.Context) ([]store.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errCut
	}
	var out []store.Session
	for _, r := range s.rows {
		out = append(out, *r)
	}
	return out, nil
}

func (s *table) ExpiredSessions(context.Context, time.Duration) ([]store.Session, error) {
	return nil, nil
}

func (s *table) ExpireSession(_ context.Context, id timer.ID, seen int64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.rows[id]; r == nil || r.Renewals != seen {
		return false, nil
	}
	delete(s.rows, id)
	return true, nil
}

func (s *table) CloseSession(_ context.Context, id timer.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, id)
	return nil
}

func (s *table) setUnavailable(unavailable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unavailable = unavailable
}

func (s *table) setStuck(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = n
}

func (s *table) renewals(id timer.ID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[id].Renewals
}

func startHeartbeater(t *testing.T, tab store.Sessions) (k *session.Heartbeater, stop func()) {
	t.Helper()
	return startHeartbeaterBy(t, tab, nil)
}

func startHeartbeaterBy(
	t *testing.T,
	tab store.Sessions,
	c *clock.Clock,
) (k *session.Heartbeater, stop func()) {
	t.Helper()
	k, err := session.NewHeartbeater(session.Options{
		Store:  tab,
		Clock:  c,
		IDs:    timer.NewIDs(time.Now),
		Kind:   store.ExecutorSession,
		Name:   "me",
		Logger: zerolog.Nop(),
		Load:   func() store.Load { return store.Load{InflightFull: true} },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = k.Run(ctx) }()
	return k, func() { cancel(); <-ended }
}

func TestSessionIsRenewedAndClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		k, stop := startHeartbeater(t, tab)
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		first := tab.renewals(epoch.ID)
		time.Sleep(10*time.Second + time.Millisecond)
		require.True(t, epoch.Valid())
		require.NoError(t, k.Ready())
		require.Equal(t, first+20, tab.renewals(epoch.ID))
		require.True(t, tab.rows[epoch.ID].Load.InflightFull)
		stop()
		require.Empty(t, tab.rows)
		require.Error(t, epoch.Context().Err())
	})
}

// stalled is a table whose database holds up commits: no write is answered before the release.
type stalled struct {
	*table

	visible bool // readers see what waits for its commit
	mu      sync.Mutex
	held    bool
	waiting []func() // the writes to do at the release, each at most once
}

// write does a write, at the release if there is a stall.
func (s *stalled) write(ctx context.Context, do func() error) error {
	s.mu.Lock()
	if !s.held {
		s.mu.Unlock()
		return do()
	}
	if s.visible {
		if err := do(); err != nil {
			s.mu.Unlock()
			return err // it waits for no commit
		}
	} else {
		s.waiting = append(s.waiting, func() { _ = do() })
	}
	s.mu.Unlock()
	<-ctx.Done()
	return errCut
}

func (s *stalled) OpenSession(ctx context.Context, begun store.Session) error {
	return s.write(ctx, func() error { return s.table.OpenSession(ctx, begun) })
}

func (s *stalled) RenewSession(
	ctx context.Context,
	id timer.ID,
	load store.Load,
) (alive bool, err error) {
	err = s.write(ctx, func() (err error) {
		alive, err = s.table.RenewSession(ctx, id, load)
		return err
	})
	return alive && err == nil, err
}

func (s *stalled) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, do := range s.waiting {
		do()
	}
}

// TestStallWhileOpeningLeavesOneSession checks a process that starts while the database holds up
// commits. After the release there is one session, and it is that of the process.
func TestStallWhileOpeningLeavesOneSession(t *testing.T) {
	t.Parallel()
	for name, visible := range map[string]bool{
		"writes are seen at the release": false,
		"writes are seen before":         true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tab := &stalled{
					table:   &table{rows: make(map[timer.ID]*store.Session)},
					visible: visible, held: true,
				}
				k, stop := startHeartbeater(t, tab)
				defer stop()
				time.Sleep(5 * time.Minute)
				require.Nil(t, k.Epoch())
				tab.release()
				live, err := tab.LiveSessions(t.Context())
				require.NoError(t, err)
				require.Len(t, live, 1)
				began := live[0].Renewals
				released := time.Now()
				epoch, err := k.Wait(t.Context())
				require.NoError(t, err)
				require.Equal(t, live[0].ID, epoch.ID)
				require.True(t, epoch.Valid())
				require.True(t, epoch.RenewedSince(released))
				require.Greater(t, tab.renewals(epoch.ID), began, "monitors see it alive")
				time.Sleep(time.Minute)
				require.Equal(t, epoch, k.Epoch())
				require.Len(t, tab.rows, 1)
			})
		})
	}
}

// collided is a table in which the first session is opened by two processes at once: that of the
// other is written, and this one gets no answer.
type collided struct {
	*table

	other timer.ID
}

func (s *collided) OpenSession(ctx context.Context, begun store.Session) error {
	if s.other != 0 {
		return s.table.OpenSession(ctx, begun)
	}
	s.other = begun.ID
	begun.Renewals = 0
	_ = s.table.OpenSession(ctx, begun)
	return errCut
}

// TestSessionOfAnotherIsNotTakenOver checks two processes that open a session with one id, of one
// kind and name.
func TestSessionOfAnotherIsNotTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &collided{table: &table{rows: make(map[timer.ID]*store.Session)}}
		k, stop := startHeartbeater(t, tab)
		defer stop()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.NotEqual(t, tab.other, epoch.ID)
		require.Len(t, tab.rows, 2)
		require.Zero(t, tab.renewals(tab.other))
	})
}

// TestExpiredWhileOpening checks a session that was written without an answer, and expired before
// its process knew of it: the process opens another.
func TestExpiredWhileOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &stalled{
			table:   &table{rows: make(map[timer.ID]*store.Session)},
			visible: true, held: true,
		}
		k, stop := startHeartbeater(t, tab)
		defer stop()
		time.Sleep(10 * time.Second)
		live, err := tab.LiveSessions(t.Context())
		require.NoError(t, err)
		require.Len(t, live, 1)
		ended, err := tab.ExpireSession(t.Context(), live[0].ID, live[0].Renewals)
		require.NoError(t, err)
		require.True(t, ended)
		tab.release()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, live[0].ID, epoch.ID)
		require.Len(t, tab.rows, 1)
	})
}

// TestAJumpNeedsARenewal checks that a jump of the host's clock, as after a suspension, makes the
// session invalid until a renewal that is sent at once.
func TestAJumpNeedsARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		host := new(clock.Host)
		c := clock.New(host.Now, nil)
		k, stop := startHeartbeaterBy(t, tab, c)
		defer stop()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		for _, by := range []time.Duration{time.Minute, -time.Minute} {
			time.Sleep(session.RenewEvery + time.Millisecond)
			require.True(t, epoch.Valid())
			tab.setUnavailable(true)
			host.Jump(by)
			require.False(t, epoch.Valid())
			time.Sleep(session.RenewEvery)
			require.False(t, epoch.Valid())
			tab.setUnavailable(false)
			time.Sleep(session.RenewEvery)
			require.True(t, epoch.Valid())

			before := tab.renewals(epoch.ID)
			host.Jump(-by)
			jumped := c.JumpedAt()
			require.Equal(t, time.Now(), jumped)
			synctest.Wait()
			require.Equal(t, before+1, tab.renewals(epoch.ID), "renewed at once")
			require.True(t, epoch.RenewedSince(jumped))
			require.True(t, epoch.Valid())
		}
	})
}

// TestAJumpAloneIsNoExpiry checks that a wait for the expiry goes on after a jump, though the session
// is not valid until the next renewal.
func TestAJumpAloneIsNoExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		host := new(clock.Host)
		k, stop := startHeartbeaterBy(t, tab, clock.New(host.Now, nil))
		defer stop()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		expired := make(chan struct{})
		go func() { epoch.AwaitExpiry(t.Context()); close(expired) }()
		time.Sleep(session.LeaseValidity - session.RenewEvery/2)
		tab.setUnavailable(true)
		host.Jump(time.Minute)
		time.Sleep(session.RenewEvery) // the wait looks at the session again
		require.False(t, epoch.Valid())
		synctest.Wait()
		select {
		case <-expired:
			require.Fail(t, "expired by a jump")
		default:
		}
		tab.setUnavailable(false)
		time.Sleep(session.RenewEvery)
		require.True(t, epoch.Valid())
		tab.setUnavailable(true)
		<-expired
	})
}

// TestRenewalWithoutAnswer checks that a renewal that took longer than the interval is followed by
// the next one at once, which keeps the session valid.
func TestRenewalWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		k, stop := startHeartbeater(t, tab)
		defer stop()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		first := tab.renewals(epoch.ID)
		time.Sleep(session.RenewEvery + time.Millisecond)
		require.Equal(t, first+1, tab.renewals(epoch.ID))
		tab.setStuck(1)
		time.Sleep(session.RenewEvery + time.Second) // until the call has timed out
		require.Equal(t, first+2, tab.renewals(epoch.ID))
		for range 1000 {
			time.Sleep(time.Millisecond)
			require.True(t, epoch.Valid())
		}
	})
}

// TestValidityEndsBeforeTheSession checks that validity ends 2 s after a renewal was sent, before a
// monitor expires the session after 2.5 s.
func TestValidityEndsBeforeTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		k, stop := startHeartbeater(t, tab)
		defer stop()
		w := session.NewMonitor(tab, nil, zerolog.Nop())
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		look := func() []store.Session {
			_, ended, err := w.Look(t.Context())
			require.NoError(t, err)
			return ended
		}
		for range 40 {
			time.Sleep(250 * time.Millisecond)
			require.Empty(t, look())
		}
		tab.setUnavailable(true)
		var ended []store.Session
		for len(ended) == 0 {
			time.Sleep(250 * time.Millisecond)
			trusted := epoch.Valid()
			if ended = look(); len(ended) > 0 {
				require.False(t, trusted)
			}
		}
		require.Equal(t, epoch.ID, ended[0].ID)
		require.Error(t, k.Ready())
		tab.setUnavailable(false)
		time.Sleep(time.Second)
		require.Error(t, epoch.Context().Err(), "an expired session cannot be renewed")
		next, err := k.Wait(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, epoch.ID, next.ID)
		require.True(t, next.Valid())
	})
}

// TestAwaitExpiry checks that it returns when validity ends, not before, and at once when the epoch
// is fenced.
func TestAwaitExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		k, stop := startHeartbeater(t, tab)
		defer stop()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		expired := make(chan struct{})
		go func() { epoch.AwaitExpiry(t.Context()); close(expired) }()
		time.Sleep(time.Minute)
		select {
		case <-expired:
			require.Fail(t, "expired although it is renewed")
		default:
		}
		tab.setUnavailable(true)
		began := time.Now()
		<-expired
		require.False(t, epoch.Valid())
		require.Greater(
			t,
			time.Since(began),
			session.LeaseValidity-session.RenewEvery-time.Millisecond,
		)
		require.LessOrEqual(t, time.Since(began), session.LeaseValidity)

		tab.setUnavailable(false)
		time.Sleep(2 * session.RenewEvery)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		epoch.AwaitExpiry(ctx)
		require.Error(t, ctx.Err())
		require.True(t, epoch.Valid(), "only the wait has ended, not the epoch")

		began = time.Now()
		time.AfterFunc(time.Millisecond, epoch.Fence)
		epoch.AwaitExpiry(t.Context())
		require.Equal(t, time.Millisecond, time.Since(began))
	})
}

func TestStoreOutageExpiresNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: make(map[timer.ID]*store.Session)}
		k, stop := startHeartbeater(t, tab)
		defer stop()
		epoch, err := k.Wait(t.Context())
		require.NoError(t, err)
		tab.setUnavailable(true) // for everybody, polls included
		time.Sleep(time.Minute)
		require.False(t, epoch.Valid())
		tab.setUnavailable(false)
		time.Sleep(time.Second)
		require.True(t, epoch.Valid(), "the same session continues")
	})
}

// TestStoreOutageDoesNotCountTowardsTheTimeout checks that the first poll after an outage expires
// no session, not even one renewed seconds later.
func TestStoreOutageDoesNotCountTowardsTheTimeout(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*table, bool){
		"renewals and polls fail": func(s *table, is bool) { s.unavailable, s.away = is, is },
		"only renewals fail":      func(s *table, is bool) { s.unavailable = is },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tab := &table{rows: make(map[timer.ID]*store.Session)}
				k, stop := startHeartbeater(t, tab)
				defer stop()
				w := session.NewMonitor(tab, k, zerolog.Nop())
				epoch, err := k.Wait(t.Context())
				require.NoError(t, err)
				require.NoError(
					t,
					tab.OpenSession(
						t.Context(),
						store.Session{ID: 7, Kind: store.ExecutorSession, Name: "another"},
					),
				)
				look := func(d time.Duration) (ended []store.Session) {
					for begin := time.Now(); time.Since(begin) < d; time.Sleep(250 * time.Millisecond) {
						_, e, _ := w.Look(t.Context())
						ended = append(ended, e...)
					}
					return ended
				}
				set := func(is bool) {
					tab.mu.Lock()
					defer tab.mu.Unlock()
					away(tab, is)
				}
				require.Empty(t, look(time.Second))
				_, err = tab.RenewSession(t.Context(), 7, store.Load{})
				require.NoError(t, err)
				require.Empty(t, look(250*time.Millisecond))
				set(true)
				require.Empty(t, look(time.Minute))
				set(false)
				require.Empty(
					t,
					look(session.Grace-time.Second),
					"the other session is renewed late",
				)
				require.Len(t, look(5*time.Second), 1, "the wait for it is bounded")
				require.True(t, epoch.Valid(), "the same session continues")
			})
		})
	}
}

// TestStartDoesNotDelayAnExpiry checks a process whose own session is not open yet. Another session
// expires as soon as it does for others.
func TestStartDoesNotDelayAnExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: map[timer.ID]*store.Session{7: {ID: 7, Renewals: 3}}}
		tab.setUnavailable(true)
		k, stop := startHeartbeater(t, tab)
		defer stop()
		w := session.NewMonitor(tab, k, zerolog.Nop())
		begin := time.Now()
		for ended := []store.Session(nil); len(ended) == 0; time.Sleep(100 * time.Millisecond) {
			tab.setUnavailable(time.Since(begin) < time.Second)
			_, ended, _ = w.Look(t.Context())
		}
		require.InDelta(t, session.Timeout.Seconds(), time.Since(begin).Seconds(), 0.2)
	})
}

// TestOutageWithoutOwnSessionExpiresNobody checks a process that starts while the store takes no
// writes: it cannot open a session, and blames no other process for missing renewals.
func TestOutageWithoutOwnSessionExpiresNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: map[timer.ID]*store.Session{7: {ID: 7, Renewals: 3}}}
		tab.setUnavailable(true)
		k, stop := startHeartbeater(t, tab)
		defer stop()
		w := session.NewMonitor(tab, k, zerolog.Nop())
		look := func(d time.Duration) (ended []store.Session) {
			for begin := time.Now(); time.Since(begin) < d; time.Sleep(250 * time.Millisecond) {
				_, e, err := w.Look(t.Context())
				require.NoError(t, err)
				ended = append(ended, e...)
			}
			return ended
		}
		require.Empty(t, look(time.Minute))
		tab.setUnavailable(false)
		require.Empty(t, look(session.Grace-time.Second), "the other session is renewed late")
		require.Len(t, look(5*time.Second), 1, "the wait for it is bounded")
	})
}

func TestNewMonitorWaitsForTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: map[timer.ID]*store.Session{7: {ID: 7, Renewals: 3}}}
		w := session.NewMonitor(tab, nil, zerolog.Nop())
		begin := time.Now()
		for {
			live, ended, err := w.Look(t.Context())
			require.NoError(t, err)
			if len(ended) > 0 {
				require.Empty(t, live)
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, session.Timeout, time.Since(begin))
	})
}

// TestExpiryIsDetectedAtTheTimeout checks that a session's expiry is detected at most one poll
// after its timeout, whenever it was last renewed.
func TestExpiryIsDetectedAtTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const takes = 10 * time.Millisecond // duration of a poll
		for phase := 3 * time.Millisecond; phase < session.MonitorInterval; phase += 19 * time.Millisecond {
			tab := &table{rows: map[timer.ID]*store.Session{7: {ID: 7}, 8: {ID: 8}}}
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			var noticed time.Time
			looks := 0
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				session.NewMonitor(&slowTable{tab, takes}, nil, zerolog.Nop()).
					Watch(ctx, func(_ context.Context, _, ended []store.Session, _ error) {
						looks++
						if len(ended) > 0 {
							noticed = time.Now()
						}
					})
			}()
			var silent time.Time
			for time.Sleep(phase); time.Since(began) < 8*time.Second; time.Sleep(session.RenewEvery) {
				_, err := tab.RenewSession(t.Context(), 8, store.Load{})
				require.NoError(t, err)
				if time.Since(began) < 2*time.Second {
					silent = time.Now()
					_, err := tab.RenewSession(t.Context(), 7, store.Load{})
					require.NoError(t, err)
				}
			}
			cancel()
			<-watched
			require.Contains(t, tab.rows, timer.ID(8))
			require.NotContains(t, tab.rows, timer.ID(7))
			require.GreaterOrEqual(t, noticed.Sub(silent), session.Timeout)
			require.LessOrEqual(
				t,
				noticed.Sub(silent),
				session.Timeout+session.MonitorInterval+3*takes,
			)
			require.LessOrEqual(t, looks, int(time.Since(began)/session.MonitorInterval)+2)
		}
	})
}

// slowTable is a table with slow polls.
type slowTable struct {
	*table

	takes time.Duration
}

func (s *slowTable) LiveSessions(ctx context.Context) ([]store.Session, error) {
	time.Sleep(s.takes / 2)
	defer time.Sleep(s.takes / 2)
	return s.table.LiveSessions(ctx)
}

func TestTwoMonitorsExpireOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: map[timer.ID]*store.Session{7: {ID: 7}, 8: {ID: 8}}}
		a, b := session.NewMonitor(
			tab,
			nil,
			zerolog.Nop(),
		), session.NewMonitor(
			tab,
			nil,
			zerolog.Nop(),
		)
		n := 0
		for range 40 {
			for _, w := range []*session.Monitor{a, b} {
				_, ended, err := w.Look(t.Context())
				require.NoError(t, err)
				n += len(ended)
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 2, n)
	})
}

// TestWritten: the time of the last write stays after its session has ended.
func TestWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := &table{rows: map[timer.ID]*store.Session{}}
		k, err := session.NewHeartbeater(session.Options{
			Store:  tab,
			IDs:    timer.NewIDs(time.Now),
			Kind:   store.ExecutorSession,
			Logger: zerolog.Nop(),
		})
		require.NoError(t, err)
		require.Zero(t, k.Written())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		_, err = k.Wait(ctx)
		require.NoError(t, err)
		time.Sleep(10*time.Second + session.RenewEvery/2)
		last := time.Now().Add(-session.RenewEvery / 2)
		require.Equal(t, last, k.Written())
		tab.set(func() { tab.unavailable = true })
		time.Sleep(10 * time.Second)
		require.Equal(t, last, k.Written())
		tab.set(func() { tab.unavailable = false })
		time.Sleep(session.RenewEvery)
		require.True(t, k.Written().After(last))

		last = k.Written()
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, last, k.Written())
	})
}

func (s *table) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}
