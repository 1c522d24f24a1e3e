package timer

import "time"

// MisfirePolicy decides what happens to fires that could not run in time. Empty is the default of
// the kind of schedule: see Misfire.For.
type MisfirePolicy string

// The policies.
const (
	MisfireFireAll  MisfirePolicy = "fire_all"  // all of them run, up to the latest MaxFires
	MisfireFireOnce MisfirePolicy = "fire_once" // one fire runs and covers all of them
	MisfireSkip     MisfirePolicy = "skip"      // none of them runs
)

// MisfireDoc is a policy with its meaning, as the API describes it.
type MisfireDoc struct {
	Policy MisfirePolicy
	Doc    string
}

// MisfirePolicies returns all policies, in the order of the API's description.
func MisfirePolicies() []MisfireDoc {
	return []MisfireDoc{
		{MisfireFireAll, "each late fire runs, at most max_fires of the latest"},
		{MisfireFireOnce, "one late fire runs for all of them"},
		{MisfireSkip, "no late fire runs"},
	}
}

// Known reports whether this release knows the policy. A newer release may have stored another one.
// It has no default case, so that the linter names a value added to the type.
func (p MisfirePolicy) Known() bool {
	switch p {
	case "", MisfireFireAll, MisfireFireOnce, MisfireSkip:
		return true
	}
	return false
}

// Misfire configures what happens to late fires.
type Misfire struct {
	Policy MisfirePolicy `json:"policy,omitempty"`
	// Grace is the lateness from which a fire is misfired; 0 means DefaultGrace.
	Grace Duration `json:"grace,omitempty"`
	// CatchUpWindow is the lateness from which a fire never runs, even within the grace. 0 means no
	// limit.
	CatchUpWindow Duration `json:"catch_up_window,omitempty"`
	// MaxFires is the limit of fire_all; 0 means DefaultMisfireFires.
	MaxFires int `json:"max_fires,omitempty"`
}

// ConcurrencyPolicy decides what happens to a fire whose predecessor has not finished. Empty is
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

// Known reports whether this release knows the policy. A newer release may have stored another one.
func (p ConcurrencyPolicy) Known() bool {
	switch p {
	case "", ConcurrencyAllow, ConcurrencySkip, ConcurrencyQueueOne, ConcurrencyQueueAll,
		ConcurrencyCancelPrevious:
		return true
	}
	return false
}

// Concurrency configures what happens to a fire while its predecessor, including its retries, has
// not finished.
type Concurrency struct {
	Policy ConcurrencyPolicy `json:"policy,omitempty"`
	// MaxQueue is how many fires of queue_all may wait; 0 means DefaultMaxQueue.
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

// For returns the policy with all defaults for a kind of schedule. One-shots always run, however
// late (fire_all). Recurring schedules catch up once (fire_once).
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

// MisfiredAfter returns the lateness from which a fire is misfired: the grace, or the catch-up
// window if that is shorter. All defaults must be filled in.
func (m Misfire) MisfiredAfter() time.Duration {
	if m.CatchUpWindow > 0 {
		return time.Duration(min(m.Grace, m.CatchUpWindow))
	}
	return time.Duration(m.Grace)
}

// Resolved returns the policy with all defaults filled in.
func (c Concurrency) Resolved() Concurrency {
	if c.Policy == "" {
		c.Policy = ConcurrencyAllow
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = DefaultMaxQueue
	}
	return c
}
