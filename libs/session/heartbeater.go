package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Timing of renewals and expiry.
const (
	RenewEvery    = 500 * time.Millisecond
	LeaseValidity = 2 * time.Second // after a successful renewal was sent
	// Timeout is how long a session goes without a renewal until a monitor expires it.
	Timeout = 2500 * time.Millisecond
	// MonitorInterval is the time between polls of a Monitor, which also polls when a Timeout ends.
	// It bounds the delay of an expiry.
	MonitorInterval = 350 * time.Millisecond

	callTimeout = time.Second
	openWait    = 200 * time.Millisecond

	// maxFirst bounds the number of renewals that a session begins with, far from an overflow.
	maxFirst = 1 << 62
)

// Options of a Heartbeater.
type Options struct {
	Store  store.Sessions
	Clock  *clock.Clock // whose jumps it heeds; nil: those of time.Now
	IDs    *timer.IDs
	Kind   store.SessionKind
	Name   string
	Load   func() store.Load // nil: none
	Logger zerolog.Logger
}

// Epoch is one session from its opening to its end. A process whose session expired gets a new
// epoch, without claims.
type Epoch struct {
	ID timer.ID
	//nolint:containedctx // the lifetime of the epoch, passed to its calls
	ctx   context.Context
	end   context.CancelFunc
	clock *clock.Clock
	mu    sync.Mutex
	sent  time.Time // when the last successful renewal was sent
}

// Done returns a channel that is closed once the session is known to have ended.
func (t *Epoch) Done() <-chan struct{} { return t.ctx.Done() }

// Context returns a context that ends once the session is known to have ended.
func (t *Epoch) Context() context.Context { return t.ctx }

// Fence ends the epoch's context without ending the session. Calls made in it are cancelled.
func (t *Epoch) Fence() { t.end() }

// Valid reports whether a call may start now: no monitor can have expired the session yet. After a
// jump of the host's clock only a renewal that was sent later proves that.
func (t *Epoch) Valid() bool {
	if t.ctx.Err() != nil {
		return false
	}
	return t.clock.Within(LeaseValidity, t.renewed())
}

// late reports whether no renewal has succeeded for as long as a session is valid.
func (t *Epoch) late() bool { return time.Since(t.renewed()) >= LeaseValidity }

func (t *Epoch) renewed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent
}

// RenewedSince reports whether the last successful renewal was sent at an instant of the monotonic
// clock, or later.
func (t *Epoch) RenewedSince(at time.Time) bool { return !t.renewed().Before(at) }

// AwaitExpiry waits until no renewal has succeeded for so long that the epoch is no longer valid, or
// until it or ctx ends. A jump of the host's clock alone does not end the wait: a renewal follows.
func (t *Epoch) AwaitExpiry(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	for t.ctx.Err() == nil && !t.late() && ctx.Err() == nil {
		clock.Pause(ctx, time.Until(t.renewed().Add(LeaseValidity)))
	}
}

// Heartbeater opens epochs, one after the other. It is safe for concurrent use.
type Heartbeater struct {
	opts    Options
	mu      sync.Mutex
	epoch   *Epoch
	since   time.Time     // since when there is no epoch
	written time.Time     // Written of the epochs before
	next    chan struct{} // closed when epoch is set
}

// NewHeartbeater returns a Heartbeater without an epoch.
func NewHeartbeater(opts Options) (*Heartbeater, error) {
	if opts.Store == nil || opts.IDs == nil || opts.Kind == "" {
		return nil, errors.New("session: Store, IDs and Kind are needed")
	}
	if opts.Clock == nil {
		opts.Clock = clock.New(time.Now, nil)
	}
	return &Heartbeater{opts: opts, since: time.Now(), next: make(chan struct{})}, nil
}

// Epoch returns the current epoch, or nil.
func (k *Heartbeater) Epoch() *Epoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}

// Wait returns the current epoch, and waits until there is one.
func (k *Heartbeater) Wait(ctx context.Context) (*Epoch, error) {
	for {
		k.mu.Lock()
		epoch, next := k.epoch, k.next
		k.mu.Unlock()
		if epoch != nil {
			return epoch, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Written returns when the last write of a session that succeeded was sent; the zero time means
// never. A write that stalls in the database, such as for want of a replica's answer, holds up those
// after it. So what was sent to be committed before that time is visible.
func (k *Heartbeater) Written() time.Time {
	k.mu.Lock()
	epoch, at := k.epoch, k.written
	k.mu.Unlock()
	if epoch == nil {
		return at
	}
	return epoch.renewed()
}

// Ready returns nil if the current epoch is valid.
func (k *Heartbeater) Ready() error {
	if t := k.Epoch(); t == nil || !t.Valid() {
		return errors.New("no session renewed within 2 s")
	}
	return nil
}

// late reports whether the store has taken no renewal, nor opened an epoch, for as long as a session
// is valid.
func (k *Heartbeater) late() bool {
	k.mu.Lock()
	epoch, since := k.epoch, k.since
	k.mu.Unlock()
	if epoch == nil {
		return time.Since(since) >= LeaseValidity
	}
	return epoch.late()
}

// Run opens and renews epochs until ctx ends, and then closes the last session.
func (k *Heartbeater) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		t := k.open(ctx)
		if t == nil {
			break
		}
		k.set(t)
		k.renew(ctx, t)
		k.clear()
		t.end()
		if ctx.Err() != nil {
			k.close(ctx, t)
		}
	}
	return nil
}

// opening is a session that is being opened, perhaps by several tries.
type opening struct {
	store.Session

	ours bool // the store has it, and this process has opened it
}

// open tries to open a session until it succeeds or ctx ends; then it returns nil. All tries have one
// id. If a database holds up commits, each try may write its row later, without an answer. With an id
// for each, all of these would be alive at once, and executors would share the fires with sessions
// that nobody has.
func (k *Heartbeater) open(ctx context.Context) *Epoch {
	var o *opening
	for ctx.Err() == nil {
		if o == nil {
			o = &opening{Session: store.Session{
				ID: k.opts.IDs.Next(), Kind: k.opts.Kind, Name: k.opts.Name,
				Renewals: rand.Int64N(maxFirst),
			}}
		}
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		alive, err := k.try(call, o)
		cancel()
		if alive && err == nil {
			epochCtx, end := context.WithCancel(context.WithoutCancel(ctx))
			k.opts.Logger.Info().Int64("session", int64(o.ID)).Msg("session opened")
			return &Epoch{ID: o.ID, ctx: epochCtx, end: end, clock: k.opts.Clock, sent: sent}
		}
		k.opts.Logger.Debug().Err(err).Msg("session not opened")
		if err == nil {
			o = nil // the id is of another process, or the session has expired
		}
		clock.Pause(ctx, openWait)
	}
	return nil
}

// try opens a session, or renews it if an earlier try did: monitors may have seen it for long. It
// returns false if its id will never be an alive session of this process. After an error that is not
// known, and try may be repeated.
//
// Two processes may draw one id. Neither takes the other's session, because they draw different
// numbers of renewals to begin with. Only its own process can have renewed a session before it knows
// it as its own.
func (k *Heartbeater) try(ctx context.Context, o *opening) (alive bool, err error) {
	if !o.ours {
		err = k.opts.Store.OpenSession(ctx, o.Session)
		if timer.CodeOf(err) != timer.CodeConflict {
			return err == nil, err //nolint:wrapcheck // the store says what failed
		}
		all, err := k.opts.Store.LiveSessions(ctx)
		if err != nil {
			return false, err //nolint:wrapcheck // as above
		}
		o.ours = slices.ContainsFunc(all, func(s store.Session) bool {
			return s.ID == o.ID && s.Renewals == o.Renewals
		})
		if !o.ours {
			return false, nil
		}
	}
	return k.opts.Store.RenewSession(ctx, o.ID, k.load()) //nolint:wrapcheck // as above
}

func (k *Heartbeater) load() store.Load {
	if k.opts.Load == nil {
		return store.Load{}
	}
	return k.opts.Load()
}

func (k *Heartbeater) renew(ctx context.Context, t *Epoch) {
	// After a renewal that took longer than the interval, the next one follows at once: the session is
	// valid for 2 s, of which a call that fails may take one. After a jump one follows at once, too.
	jumped := t.clock.Jumped()
	for tick := clock.NewTicker(RenewEvery); tick.WaitOr(ctx, jumped); {
		jumped = t.clock.Jumped()
		load := k.load()
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		alive, err := k.opts.Store.RenewSession(call, t.ID, load)
		cancel()
		switch {
		case err != nil:
			k.opts.Logger.Debug().Err(err).Msg("session not renewed")
		case !alive:
			k.opts.Logger.Warn().
				Int64("session", int64(t.ID)).
				Msg("session expired, opening a new one")
			return
		default:
			t.mu.Lock()
			t.sent = sent
			t.mu.Unlock()
		}
	}
}

func (k *Heartbeater) set(t *Epoch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.epoch = t
	close(k.next)
}

func (k *Heartbeater) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written = k.epoch.renewed()
	k.epoch, k.since = nil, time.Now()
	k.next = make(chan struct{})
}

func (k *Heartbeater) close(ctx context.Context, t *Epoch) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := k.opts.Store.CloseSession(call, t.ID); err != nil {
		k.opts.Logger.Warn().
			Err(fmt.Errorf("closing session %d: %w", t.ID, err)).
			Msg("session not closed, left to expire")
	}
}
