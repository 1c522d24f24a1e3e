package pulsarbus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/apache/pulsar-client-go/pulsar/backoff"

	"github.com/carillon-timer/carillon/libs/bus"
)

// creation is the result of await.
type creation[T any] struct {
	value T
	err   error
}

const (
	stuckEvery       = 30 * time.Second // between warnings about what does not succeed
	stuckPingTimeout = 5 * time.Second
	stuckText        = "Pulsar answers, but this does not succeed: unload the topic, or restart its broker"
	deniedText       = "Pulsar denies the access: grant the role the rights to produce and to consume"
)

// await calls create repeatedly until it succeeds or ctx ends. Permanent errors end it at once. After
// a setup by this process, for which the admin API took its login, a denied access is not permanent.
// create cannot be interrupted, because the client's calls take no context. If it succeeds too
// late, drop undoes it. While the broker answers pings or denies the access, await logs what does not
// succeed.
func await[T any](
	ctx context.Context,
	b *Bus,
	what string,
	create func() (T, error),
	drop func(T),
) (T, error) {
	var none T
	var last atomic.Pointer[error]
	result := make(chan creation[T]) // unbuffered: a result that nobody receives is dropped
	err := b.start(func() {
		if b.awaitSetup(ctx) != nil {
			return
		}
		wait := minRetry
		for {
			v, err := create()
			if err == nil {
				select {
				case result <- creation[T]{value: v}:
				case <-ctx.Done():
					drop(v)
				case <-b.ctx.Done():
					drop(v)
				}
				return
			}
			if isInvalid(err) || isDenied(err) && !b.setupFirst {
				select {
				case result <- creation[T]{err: fmt.Errorf("%s: %w", what, err)}:
				case <-ctx.Done():
				case <-b.ctx.Done():
				}
				return
			}
			last.Store(&err)
			b.log.Debug().Err(err).Str("what", what).Msg("waiting for the broker")
			if pause(ctx, b.ctx, wait) != nil {
				return
			}
			wait = min(2*wait, maxRetry)
		}
	})
	if err != nil {
		return none, err
	}
	began := time.Now()
	var pinged chan bool // nil: no ping is under way
	stuck := time.NewTicker(stuckEvery)
	defer stuck.Stop()
	for {
		select {
		case m := <-result:
			return m.value, m.err
		case <-stuck.C:
			if pinged == nil {
				pinged = b.pingOnce()
			}
		case answers := <-pinged:
			pinged = nil
			var cause error // nil: no call has returned yet
			if err := last.Load(); err != nil {
				cause = *err
			}
			denied := cause != nil && isDenied(cause)
			if !answers && !denied {
				continue
			}
			text := stuckText
			if denied {
				text = deniedText
			}
			b.log.Warn().
				Err(cause).
				Str("what", what).
				Stringer("waited", time.Since(began).Round(time.Second)).
				Msg(text)
		case <-ctx.Done():
			return none, fmt.Errorf("%s: %w", what, ctx.Err())
		case <-b.ctx.Done():
			return none, bus.ErrClosed
		}
	}
}

// pingOnce tells whether the broker answers a ping, unless it is not set up yet: then all wait
// for that, and it is reported elsewhere, as is a broker that does not answer.
func (b *Bus) pingOnce() chan bool {
	answers := make(chan bool, 1)
	select {
	case <-b.prepared:
	default:
		return nil
	}
	if b.start(func() {
		ctx, cancel := context.WithTimeout(b.ctx, stuckPingTimeout)
		defer cancel()
		answers <- b.Ping(ctx) == nil
	}) != nil {
		return nil
	}
	return answers
}

// awaitSetup waits for the first setup, if there must be one, or until ctx or the bus ends.
func (b *Bus) awaitSetup(ctx context.Context) error {
	select {
	case <-b.prepared:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.ctx.Done():
		return bus.ErrClosed
	}
}

// pause waits for d, or until one of the contexts ends.
func pause(ctx, other context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-other.Done():
		return other.Err()
	}
}

// reconnectBackoff is the client's back-off for reconnecting. Its upper bound is far below the
// client's minute, so a broker's recovery is noticed soon.
type reconnectBackoff struct{ wait time.Duration }

func newReconnectBackoff() backoff.Policy { return &reconnectBackoff{} }

// reconnectSignal is signalled when the client begins to reconnect. The client may give up without
// reporting it.
type reconnectSignal chan struct{}

func newReconnectSignal() reconnectSignal { return make(reconnectSignal, 1) }

// reconnectBackoff returns a back-off, and signals that the client begins to reconnect.
func (a reconnectSignal) reconnectBackoff() backoff.Policy {
	select {
	case a <- struct{}{}:
	default:
	}
	return newReconnectBackoff()
}

func (r *reconnectBackoff) Next() time.Duration {
	r.wait = min(max(2*r.wait, minRetry), maxRetry)
	return r.wait
}

func (r *reconnectBackoff) IsMaxBackoffReached() bool { return r.wait >= maxRetry }
func (r *reconnectBackoff) Reset()                    { r.wait = 0 }
