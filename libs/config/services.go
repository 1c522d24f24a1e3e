package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
)

// Timing is how far ahead fires and tasks are prepared.
type Timing struct {
	ExpandAhead  time.Duration
	DispatchLead time.Duration
}

// Register registers the settings.
func (c *Timing) Register(s *Set) {
	s.Duration(
		&c.ExpandAhead,
		"expand-ahead",
		time.Hour,
		"how far ahead schedules are expanded into fires",
	)
	s.Duration(
		&c.DispatchLead,
		"dispatch-lead",
		2*time.Second,
		"how far ahead of their run time tasks are dispatched to executors",
	)
}

// Validate checks the settings.
func (c *Timing) Validate() error {
	const minExpandAhead, maxExpandAhead = 10 * time.Second, 24 * time.Hour
	// Executors poll the store half a lead ahead, and twice in that time (package pickup).
	const minDispatchLead, maxDispatchLead = time.Second, 10 * time.Second
	return errors.Join(
		atLeast(
			"expand-ahead",
			c.ExpandAhead,
			minExpandAhead,
		),
		atMost("expand-ahead", c.ExpandAhead, maxExpandAhead),
		atLeast("dispatch-lead", c.DispatchLead, minDispatchLead),
		atMost("dispatch-lead", c.DispatchLead, maxDispatchLead),
	)
}

// Zones is the source of time zones.
type Zones struct{ File string }

// Register registers the settings.
func (c *Zones) Register(s *Set) {
	s.String(
		&c.File,
		"tzdata",
		"",
		"file with the time zones, a zip like Go's lib/time/zoneinfo.zip; empty: the compiled-in zones. The same for all services",
	)
}

// Validate checks nothing, because opening the file does.
func (c *Zones) Validate() error { return nil }

// Bounds of what is kept.
const (
	minRetention = 24 * time.Hour             // as long as idempotency keys
	maxRetention = 100 * 365 * 24 * time.Hour // sums with it do not overflow a time.Duration
)

// Retention is how long history is kept.
type Retention struct {
	Keep     time.Duration
	Audit    time.Duration // of the audit trail
	OneShots time.Duration // of one-shots, 0: they stay
}

// Register registers the settings.
func (c *Retention) Register(s *Set) {
	s.Duration(
		&c.Keep,
		"retention",
		7*24*time.Hour,
		"how long outcomes are kept, a day to 100 years (36500d); attempts stay 8 days or more",
	)
	s.Duration(
		&c.Audit, "audit-retention", 90*24*time.Hour, "how long the audit trail of changes is kept",
	)
	s.Duration(
		&c.OneShots,
		"one-shot-retention",
		0,
		"how long one-shots stay after their instant, 48h more than retention or longer; 0: for ever. Then their names are free",
	)
}

// Validate checks the settings.
func (c *Retention) Validate() error {
	return errors.Join(
		// A request may be repeated under its idempotency key for a day. It must find the fire or
		// job that it created, or it would create it again.
		atLeast("retention", c.Keep, minRetention),
		atLeast("audit-retention", c.Audit, time.Hour),
		atMost("retention", c.Keep, maxRetention),
		atMost("audit-retention", c.Audit, maxRetention),
		atMost("one-shot-retention", c.OneShots, maxRetention+store.MinTimerRetention),
		c.checkOneShots(),
	)
}

// checkOneShots keeps one-shots for as long as their outcomes, which may be recorded later.
func (c *Retention) checkOneShots() error {
	if c.OneShots == 0 || c.Keep < minRetention || c.Keep > maxRetention {
		return nil
	}
	if least := c.Keep + store.MinTimerRetention; c.OneShots < least {
		return fmt.Errorf(
			"one-shot-retention: %s is less than %s, which is retention and %s: set 0 to keep one-shots",
			c.OneShots,
			least,
			store.MinTimerRetention,
		)
	}
	return nil
}

// Executor are the limits of one executor.
type Executor struct {
	Calls    int // concurrent
	Inflight int // fires
}

// Register registers the settings.
func (c *Executor) Register(s *Set) {
	s.Int(
		&c.Calls,
		"executor-calls",
		512,
		"concurrent calls of one executor; an app gets at most half of them",
	)
	s.Int(
		&c.Inflight,
		"executor-inflight",
		250_000,
		"fires that one executor claims before they are due or finished; at least eight for each of "+
			"executor-calls, and at most 256 MiB of bodies of 1 KiB or more",
	)
}

// MaxInflight returns how many fires one executor may claim: eight times its calls at least. With
// fewer, calls that run long would take the room by which it tells that it is overloaded.
func (c *Executor) MaxInflight() int {
	const firesPerCall = 8
	return max(c.Inflight, firesPerCall*c.Calls)
}

// Validate checks the settings.
func (c *Executor) Validate() error {
	const mostCalls, leastInflight, mostInflight = 16_384, 1000, 10_000_000
	return errors.Join(
		between("executor-calls", c.Calls, 2, mostCalls),
		between("executor-inflight", c.Inflight, leastInflight, mostInflight),
	)
}

// Canary is the interval of the canary timer, which monitors the deployment.
type Canary struct{ Every time.Duration }

// Register registers the settings.
func (c *Canary) Register(s *Set) {
	s.Duration(
		&c.Every,
		"canary",
		10*time.Second,
		"interval of the canary timer, whose lateness shows the state of the deployment; 0: no canary. The same for all services",
	)
}

// Validate checks the settings.
func (c *Canary) Validate() error {
	const longest = 10 * time.Minute
	if c.Every%time.Second != 0 {
		return fmt.Errorf("canary: %s is not whole seconds", c.Every)
	}
	return errors.Join(atLeast("canary", c.Every, 0), atMost("canary", c.Every, longest))
}

// Tracing are the settings of tracing that the standard has no variable for (OTEL_…).
type Tracing struct{ Keep string }

// Register registers the settings.
func (c *Tracing) Register(s *Set) {
	s.String(
		&c.Keep,
		"trace-keep",
		"",
		"which fires are traced whatever the sampler says: a list of late, failed, retried and skipped",
	)
}

// Validate checks the settings.
func (c *Tracing) Validate() error {
	for name := range strings.SplitSeq(c.Keep, ",") {
		switch strings.TrimSpace(name) {
		case "", "late", "failed", "retried", "skipped":
		default:
			return fmt.Errorf(
				"trace-keep: expected a list of late, failed, retried and skipped, found %q",
				strings.TrimSpace(name),
			)
		}
	}
	return nil
}

// Testing are settings for tests only.
type Testing struct{ Clock bool }

// Register registers the settings.
func (c *Testing) Register(s *Set) {
	s.Bool(
		&c.Clock,
		"test-clock",
		false,
		"for tests only: let callers of the admin port skew this process's clock (POST /test/clock)",
	)
}

// Validate checks the settings.
func (c *Testing) Validate() error { return nil }

func atMost(name string, d, most time.Duration) error {
	if d > most {
		return fmt.Errorf("%s: %s is more than %s", name, d, most)
	}
	return nil
}
