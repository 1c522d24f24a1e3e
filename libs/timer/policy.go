package timer

import "time"

// MisfirePolicy says what becomes of fires that come late because nobody could run them in time.
// Empty is the default of the schedule's kind: see Misfire.For.
type MisfirePolicy string

// The policies.
const (
	MisfireFireAll  MisfirePolicy = "fire_all"  // each of them runs, up to MaxFires of the latest
	MisfireFireOnce MisfirePolicy = "fire_once" // one catch-up for all of them
	MisfireSkip     MisfirePolicy = "skip"      // none of them
)

// Misfire is what becomes of late fires.
type Misfire struct {
	Policy MisfirePolicy `json:"policy,omitempty"`
	// what is later than this is late; 0 is DefaultGrace.
	Grace Duration `json:"grace,omitempty"`
	// what is later than this never runs, within the grace too; 0 is no bound.
	CatchUpWindow Duration `json:"catch_up_window,omitempty"`
	// of fire_all; 0 is DefaultMisfireFires.
	MaxFires int `json:"max_fires,omitempty"`
}

// ConcurrencyPolicy says what becomes of a fire whose predecessor has not finished. Empty is
// ConcurrencyAllow.
type ConcurrencyPolicy string

// The policies.
const (
	ConcurrencyAllow          ConcurrencyPolicy = "allow"
	ConcurrencySkip           ConcurrencyPolicy = "skip"
	ConcurrencyQueueOne       ConcurrencyPolicy = "queue_one"
	ConcurrencyQueueAll       ConcurrencyPolicy = "queue_all"
	ConcurrencyCancelPrevious ConcurrencyPolicy = "cancel_previous"
)

// Concurrency is what becomes of a fire whose predecessor, with all its retries, has not finished.
type Concurrency struct {
	Policy ConcurrencyPolicy `json:"policy,omitempty"`
	// of queue_all: fires that wait; 0 is DefaultMaxQueue.
	MaxQueue int `json:"max_queue,omitempty"`
}

// Defaults and limits of the policies.
const (
	DefaultGrace        = Duration(time.Minute)
	DefaultMisfireFires = 1000
	DefaultMaxQueue     = 100

	MaxGrace         = Duration(24 * time.Hour)
	MaxCatchUpWindow = Duration(10 * 365 * 24 * time.Hour)
	MaxMisfireFires  = 10_000
	MaxMaxQueue      = 10_000
)

// For returns the policy with every default filled in for a schedule of the given kind: one-shots
// run at once however late, which is fire_all; what recurs catches up once.
func (m Misfire) For(kind ScheduleKind) Misfire {
	if m.Policy == "" {
		m.Policy = MisfireFireOnce
		if kind.OneShot() {
			m.Policy = MisfireFireAll
		}
	}
	if m.Grace == 0 {
		m.Grace = DefaultGrace
	}
	if m.MaxFires == 0 {
		m.MaxFires = DefaultMisfireFires
	}
	return m
}

// MisfiredAfter returns how late a fire must be to be late, of a policy whose defaults are filled in:
// nothing is on time that is later than what never runs.
func (m Misfire) MisfiredAfter() time.Duration {
	if m.CatchUpWindow > 0 {
		return time.Duration(min(m.Grace, m.CatchUpWindow))
	}
	return time.Duration(m.Grace)
}

// Resolved returns the policy with every default filled in.
func (c Concurrency) Resolved() Concurrency {
	if c.Policy == "" {
		c.Policy = ConcurrencyAllow
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = DefaultMaxQueue
	}
	return c
}
