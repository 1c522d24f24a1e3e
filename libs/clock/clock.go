// Package clock reads the time by which fires are called: the host's clock, put right by the measured offset to the store's
// clock where that offset is more than measuring can err, and not at all after the host's clock jumped until it is measured again.
package clock

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// tolerance is the offset that is taken for none. Hosts that keep their time by NTP differ by less, and measuring
	// through a busy database is no better: correcting by noise would make a right clock wrong, and fires early.
	tolerance = 100 * time.Millisecond
	// jump is how far the host's clock may leave the monotonic one between two looks.
	jump = 250 * time.Millisecond
	// every is how often Run measures.
	every = time.Second
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
	steady bool
	age    time.Time // of the last measurement
}

// New returns a clock that is not steady until the first measurement: a host's clock may be seconds ahead, and what it called would be
// early.
func New(wall func() time.Time, source Source) *Clock {
	c := &Clock{wall: wall, source: source}
	c.mono, c.host = time.Now(), wall()
	return c
}

// Now returns the corrected time.
func (c *Clock) Now() time.Time {
	now, _ := c.Look()
	return now
}

// Look returns the corrected time, and whether it can be relied on: false before the first measurement, and from a jump of the host's clock
// until the next one.
func (c *Clock) Look() (now time.Time, steady bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, host := time.Now(), c.wall()
	// Round(0) drops the monotonic reading, so that this is the difference of what the two clocks show.
	drift := host.Round(0).Sub(c.host.Round(0)) - mono.Sub(c.mono)
	if drift > jump || drift < -jump {
		c.steady = false
	}
	c.mono, c.host = mono, host
	return host.Add(c.correction()), c.steady
}

// Offset returns the measured offset of the store's clock to the host's, and when it was measured (zero: never).
func (c *Clock) Offset() (time.Duration, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.age
}

// errJumped says that the host's clock jumped while it was measured.
var errJumped = errors.New("the host's clock jumped while it was measured")

// Measure asks the source once. An answer that took longer than the tolerance says too little and changes nothing, unless the clock is
// not steady.
//
// An answer proves only that the offset lies between what it would be if the source had been read as the answer came and as the
// question went. Where none at all is possible, none it is: a busy store must not put a right clock wrong. Else it is the least that it can
// be, for a clock that is behind makes no fire early.
func (c *Clock) Measure(ctx context.Context) error {
	sent, began := c.wall(), time.Now()
	theirs, err := c.source(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, host := time.Now(), c.wall()
	if drift := host.Round(0).Sub(sent.Round(0)) - mono.Sub(began); drift > jump || drift < -jump {
		c.steady, c.mono, c.host = false, mono, host
		return errJumped
	}
	if took > tolerance && c.steady && !c.age.IsZero() {
		return nil
	}
	most := theirs.Round(0).Sub(sent.Round(0))
	least := most - took
	c.offset = least
	if least <= 0 && most >= 0 {
		c.offset = 0
	}
	c.age, c.steady, c.mono, c.host = mono, true, mono, host
	return nil
}

// Run measures every second until ctx ends.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		call, cancel := context.WithTimeout(ctx, every)
		_ = c.Measure(call) // a store that is away leaves the last offset in force; /readyz tells of the store
		cancel()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Clock) correction() time.Duration {
	if c.offset > -tolerance && c.offset < tolerance {
		return 0
	}
	return c.offset
}
