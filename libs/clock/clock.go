package clock

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// tolerance is the largest offset that is not corrected. Hosts synchronized by NTP differ by
	// less, and a measurement through a busy database is no more precise. Correcting noise would
	// make an exact clock wrong, and fires early.
	tolerance = 100 * time.Millisecond
	// maxJump is how far the host's clock may drift from the monotonic clock between two readings.
	maxJump = 250 * time.Millisecond
	// measureEvery is how often Run measures. After a jump it measures at once.
	measureEvery = 2 * time.Second
	// retryEvery is how often Run measures while there is no valid measurement.
	retryEvery = time.Second
)

// Source returns the time that all processes agree on: the clock of the store.
type Source func(ctx context.Context) (time.Time, error)

// Clock is a corrected clock. It is safe for concurrent use. Only Measure and Run block.
type Clock struct {
	wall   func() time.Time // the host's clock
	source Source

	mu     sync.Mutex
	mono   time.Time // time of the last reading, with its monotonic part
	host   time.Time // host's clock at that reading
	offset time.Duration
	// jumpCorrection corrects jumps of the host's clock since the measurement.
	jumpCorrection time.Duration
	steady         bool
	measuredAt     time.Time // time of the last measurement

	createdAt time.Time
	jumpedAt  time.Time     // when a jump was last noticed, by the monotonic clock; zero: never
	nextJump  chan struct{} // closed when the next jump is noticed
}

// New returns a clock that is not steady until its first measurement. The host's clock may be
// seconds ahead, and then fires would be early.
func New(wall func() time.Time, source Source) *Clock {
	c := &Clock{wall: wall, source: source, nextJump: make(chan struct{})}
	c.mono, c.host = time.Now(), wall()
	c.createdAt = c.mono
	return c
}

// Now returns the corrected time. Between a jump of the host's clock and the next measurement it
// continues from before the jump, by the monotonic clock. No fire is called by that estimate.
func (c *Clock) Now() time.Time {
	now, _ := c.Read()
	return now
}

// Read returns the corrected time and whether it is reliable. It is unreliable before the first
// measurement, and from a jump of the host's clock until the next measurement. The time has no
// monotonic reading: a correction would move that although only the host's clock has jumped.
func (c *Clock) Read() (now time.Time, steady bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, host := c.readHost()
	return host.Round(0).Add(c.correction()), c.steady
}

// readHost reads both clocks and detects jumps of the host's clock.
func (c *Clock) readHost() (mono, host time.Time) {
	mono, host = time.Now(), c.wall()
	if d := drift(c.mono, c.host, mono, host); d > maxJump || d < -maxJump {
		c.steady = false
		c.jumpCorrection -= d
		c.jumpedAt = mono
		close(c.nextJump)
		c.nextJump = make(chan struct{})
	}
	c.mono, c.host = mono, host
	return mono, host
}

// Within reports whether less than d has passed since an instant of the monotonic clock. It is false
// if the host's clock has jumped since: a suspended host stops its monotonic clock, and its wall
// clock jumps when it goes on, so the time that has passed is unknown.
func (c *Clock) Within(d time.Duration, since time.Time) bool {
	return time.Since(since) < d && !since.Before(c.JumpedAt())
}

// JumpedAt returns when a jump of the host's clock was last noticed, by the monotonic clock. The
// zero time means never.
func (c *Clock) JumpedAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readHost()
	return c.jumpedAt
}

// Jumped returns a channel that is closed when the next jump of the host's clock is noticed. What
// time decides is then to be asked again, at once.
func (c *Clock) Jumped() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextJump
}

// drift returns how much further the host's clock advanced than the monotonic clock. Round(0) drops
// the monotonic reading, so that the wall clock readings are compared.
func drift(mono0, host0, mono, host time.Time) time.Duration {
	return host.Round(0).Sub(host0.Round(0)) - mono.Sub(mono0)
}

// Offset returns the measured offset of the store's clock to the host's, and the time of the
// measurement. A zero time means never.
func (c *Clock) Offset() (time.Duration, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.measuredAt
}

// errJumped means that the host's clock jumped during a measurement.
var errJumped = errors.New("host clock jumped during the measurement")

// Measure asks the source once. A response proves only a range of offsets: the source read its clock
// at some time between request and response.
func (c *Clock) Measure(ctx context.Context) error {
	// Read before wall: a pause of this process in between then only widens the range.
	began := time.Now()
	sent := c.wall()
	theirs, err := c.source(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, host := c.readHost()
	if d := drift(began, sent, mono, host); d > maxJump || d < -maxJump {
		return errJumped
	}
	most := theirs.Round(0).Sub(sent.Round(0))
	least := most - took
	if offset, ok := c.offsetIn(least, most); ok {
		c.offset = offset
		c.measuredAt, c.steady, c.jumpCorrection = mono, true, 0
	}
	return nil
}

// offsetIn returns the offset by a measurement that proves a range of them. It is not ok if a
// measurement tells nothing new. If the range includes 0, the offset is 0, because a slow store must
// not make an exact clock wrong. Otherwise it is the lowest: a slow clock makes no fire early.
//
// A range wider than the tolerance is too imprecise for that. It moves the clock only if the
// correction in force is outside of it by the tolerance or more, and then to the lowest, too.
// Otherwise that correction stays, by which the clock goes on from before a jump. Before the first
// measurement it is 0.
func (c *Clock) offsetIn(least, most time.Duration) (offset time.Duration, ok bool) {
	if most-least <= tolerance {
		if least <= 0 && most >= 0 {
			return 0, true
		}
		return least, true
	}
	var known time.Duration
	if !c.measuredAt.IsZero() {
		known = c.correction()
	}
	if known <= least-tolerance || known >= most+tolerance {
		return least, true
	}
	return known, !c.steady
}

// Run measures every two seconds, and at once after a jump, until ctx ends.
func (c *Clock) Run(ctx context.Context) error {
	next := time.NewTimer(measureEvery)
	defer next.Stop()
	for {
		jumped := c.Jumped()
		call, cancel := context.WithTimeout(ctx, retryEvery)
		// If the store is unavailable, the last offset stays valid; /readyz reports the store.
		_ = c.Measure(call)
		cancel()
		wait := measureEvery
		if _, steady := c.Read(); !steady {
			wait = retryEvery
		}
		next.Reset(wait)
		select {
		case <-next.C:
		case <-jumped:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Clock) correction() time.Duration {
	if c.offset > -tolerance && c.offset < tolerance {
		return c.jumpCorrection
	}
	return c.offset + c.jumpCorrection
}
