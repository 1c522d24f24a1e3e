// Package clock reads the time by which fires are called: the host's clock, put right by the
// measured offset to the store's clock where that offset is more than measuring can err. After the
// host's clock jumped nothing is called until it is measured again.
package clock

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// tolerance is the offset that is taken for none. Hosts that keep their time by NTP differ by
	// less, and measuring through a busy database is no better: correcting by noise would make a
	// right clock wrong, and fires early.
	tolerance = 100 * time.Millisecond
	// maxJump is how far the host's clock may leave the monotonic one between two looks.
	maxJump = 250 * time.Millisecond
	// measureEvery is how often Run measures; a jump it measures at once.
	measureEvery = 2 * time.Second
	// retryEvery is how soon it measures again where it has no measurement yet, or none since a jump.
	retryEvery = time.Second
)

// Source returns the time that all processes agree on: the store's.
type Source func(ctx context.Context) (time.Time, error)

// Clock is safe for concurrent use. It makes no call that blocks but in Measure and Run.
type Clock struct {
	wall   func() time.Time // the host's clock
	source Source

	mu     sync.Mutex
	mono   time.Time // when Look was last called, with its monotonic reading
	host   time.Time // what wall said then
	offset time.Duration
	// what jumps of the host's clock since the measurement have to be put right by.
	jumpCorrection time.Duration
	steady         bool
	measuredAt     time.Time // of the last measurement

	createdAt time.Time
	jumped    chan struct{} // has room for one: Run shall measure now
}

// New returns a clock that is not steady until the first measurement: a host's clock may be seconds
// ahead, and what it called would be early.
func New(wall func() time.Time, source Source) *Clock {
	c := &Clock{wall: wall, source: source, jumped: make(chan struct{}, 1)}
	c.mono, c.host = time.Now(), wall()
	c.createdAt = c.mono
	return c
}

// Now returns the corrected time. From a jump of the host's clock until the next measurement it
// goes on from before the jump, by the monotonic clock: a better guess than either reading of the
// host's, and still one that nothing is called by.
func (c *Clock) Now() time.Time {
	now, _ := c.Read()
	return now
}

// Read returns the corrected time, and whether it can be relied on: false before the first
// measurement, and from a jump of the host's clock until the next one.
func (c *Clock) Read() (now time.Time, steady bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, host := c.readHost()
	return host.Add(c.correction()), c.steady
}

// readHost reads both clocks and notices a jump of the host's.
func (c *Clock) readHost() (mono, host time.Time) {
	mono, host = time.Now(), c.wall()
	if d := drift(c.mono, c.host, mono, host); d > maxJump || d < -maxJump {
		c.steady = false
		c.jumpCorrection -= d
		select {
		case c.jumped <- struct{}{}:
		default:
		}
	}
	c.mono, c.host = mono, host
	return mono, host
}

// drift returns how much further the host's clock went than the monotonic one. Round(0) drops the
// monotonic reading, so that the difference is that of what the host's clock showed.
func drift(mono0, host0, mono, host time.Time) time.Duration {
	return host.Round(0).Sub(host0.Round(0)) - mono.Sub(mono0)
}

// Offset returns the measured offset of the store's clock to the host's, and when it was measured
// (zero: never).
func (c *Clock) Offset() (time.Duration, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.measuredAt
}

// errJumped says that the host's clock jumped while it was measured.
var errJumped = errors.New("the host's clock jumped while it was measured")

// Measure asks the source once. An answer that took longer than the tolerance says too little and
// changes nothing, unless the clock is not steady.
//
// An answer proves only that the offset lies between what it would be if the source had been read
// as the answer came and as the question went. Where none at all is possible, none it is: a busy
// store must not put a right clock wrong. Else it is the least that it can be, for a clock that is
// behind makes no fire early.
func (c *Clock) Measure(ctx context.Context) error {
	// first: whatever time this process is not given between the two makes the answer say less, and
	// not another thing.
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
	if took > tolerance && c.steady && !c.measuredAt.IsZero() {
		return nil
	}
	most := theirs.Round(0).Sub(sent.Round(0))
	least := most - took
	c.offset = least
	if least <= 0 && most >= 0 {
		c.offset = 0
	}
	c.measuredAt, c.steady, c.jumpCorrection = mono, true, 0
	return nil
}

// Run measures every two seconds, and at once after a jump, until ctx ends.
func (c *Clock) Run(ctx context.Context) error {
	next := time.NewTimer(measureEvery)
	defer next.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, retryEvery)
		// a store that is away leaves the last offset in force; /readyz tells of the store.
		_ = c.Measure(call)
		cancel()
		wait := measureEvery
		if _, steady := c.Read(); !steady {
			wait = retryEvery
		}
		next.Reset(wait)
		select {
		case <-next.C:
		case <-c.jumped:
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
