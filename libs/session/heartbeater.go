// Package session keeps a process's session alive, and watches those of the others.
//
// A session proves life by renewal in the store. Its keeper never trusts it for longer than Trust
// since it sent the last renewal that succeeded; a watcher ends it only after it saw the same
// renewal number for Silence, which is longer. No two clocks are compared: each side measures its
// own stretch on its own monotonic clock. So whatever a session does while its keeper trusts it is
// done before anyone may take its claims over.
package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Timing.
const (
	RenewEvery    = 500 * time.Millisecond
	LeaseValidity = 2 * time.Second         // since a successful renewal was sent
	Timeout       = 2500 * time.Millisecond // of a renewal number until its session is ended
	// MonitorInterval is how often a watcher looks, besides when a silence comes to its end: who
	// falls silent is noticed this long after Silence at the latest.
	MonitorInterval = 350 * time.Millisecond

	callTimeout = time.Second
	openWait    = 200 * time.Millisecond
)

// Options of a keeper.
type Options struct {
	Store  store.Sessions
	IDs    *timer.IDs
	Kind   store.SessionKind
	Name   string
	Load   func() store.Load // nil: none
	Logger zerolog.Logger
}

// Epoch is one session from its opening to its end. A process whose session was ended gets a new
// term, with empty hands.
type Epoch struct {
	ID timer.ID
	//nolint:containedctx // it is the term's life, handed to the calls made in it
	ctx  context.Context
	end  context.CancelFunc
	mu   sync.Mutex
	sent time.Time // of the last renewal that succeeded
}

// Done is closed when the session is known to be dead.
func (t *Epoch) Done() <-chan struct{} { return t.ctx.Done() }

// Context ends when the session is known to be dead.
func (t *Epoch) Context() context.Context { return t.ctx }

// Fence ends the term's context without ending the session: calls made in it are given up.
func (t *Epoch) Fence() { t.end() }

// Valid tells whether a call may be started now: nobody can have ended the session yet.
func (t *Epoch) Valid() bool {
	if t.ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.sent) < LeaseValidity
}

// AwaitExpiry waits until no call may be started any more, or ctx ends.
func (t *Epoch) AwaitExpiry(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	for t.Valid() && ctx.Err() == nil {
		t.mu.Lock()
		end := t.sent.Add(LeaseValidity)
		t.mu.Unlock()
		clock.Pause(ctx, time.Until(end))
	}
}

// Heartbeater opens terms one after the other.
type Heartbeater struct {
	opts  Options
	mu    sync.Mutex
	epoch *Epoch
	next  chan struct{} // closed when term is set
}

// NewHeartbeater returns a keeper without a term.
func NewHeartbeater(opts Options) (*Heartbeater, error) {
	if opts.Store == nil || opts.IDs == nil || opts.Kind == "" {
		return nil, errors.New("session: Store, IDs and Kind are needed")
	}
	return &Heartbeater{opts: opts, next: make(chan struct{})}, nil
}

// Epoch returns the term that lives, or nil.
func (k *Heartbeater) Epoch() *Epoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.epoch
}

// Wait returns the term that lives, as soon as there is one.
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

// Ready tells whether there is a term that is trusted.
func (k *Heartbeater) Ready() error {
	if t := k.Epoch(); t == nil || !t.Valid() {
		return errors.New("no session renewed within 2 s")
	}
	return nil
}

// Run keeps terms until ctx ends, and then closes the last one.
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

func (k *Heartbeater) open(ctx context.Context) *Epoch {
	for ctx.Err() == nil {
		id := k.opts.IDs.Next()
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := k.opts.Store.OpenSession(call, id, k.opts.Kind, k.opts.Name)
		cancel()
		if err == nil {
			epochCtx, end := context.WithCancel(context.WithoutCancel(ctx))
			k.opts.Logger.Info().Int64("session", int64(id)).Msg("session opened")
			return &Epoch{ID: id, ctx: epochCtx, end: end, sent: sent}
		}
		// A session row that was written although the answer was an error is silent, and ended by a
		// watcher.
		k.opts.Logger.Debug().Err(err).Msg("session not opened")
		clock.Pause(ctx, openWait)
	}
	return nil
}

func (k *Heartbeater) renew(ctx context.Context, t *Epoch) {
	tick := time.NewTicker(RenewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var load store.Load
		if k.opts.Load != nil {
			load = k.opts.Load()
		}
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
				Msg("session was ended by others, starting anew")
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
	k.epoch = nil
	k.next = make(chan struct{})
}

func (k *Heartbeater) close(ctx context.Context, t *Epoch) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := k.opts.Store.CloseSession(call, t.ID); err != nil {
		k.opts.Logger.Warn().
			Err(fmt.Errorf("closing session %d: %w", t.ID, err)).
			Msg("session left to its watchers")
	}
}
