package timer

import "time"

// ScheduleKind says how a schedule names its instants.
type ScheduleKind string

// The kinds.
const (
	KindCron     ScheduleKind = "cron"     // Specs
	KindInterval ScheduleKind = "interval" // Every, from Anchor + Phase: a fixed rate
	// KindFixedDelay: Every after the end of the last fire, one fire at a time.
	KindFixedDelay ScheduleKind = "fixed_delay"
	// KindAt: At; one that is past at the first activation is due at that moment.
	KindAt    ScheduleKind = "at"
	KindDelay ScheduleKind = "delay" // Delay after the first activation
)

// OneShot tells whether a schedule of this kind has a single instant.
func (k ScheduleKind) OneShot() bool { return k == KindAt || k == KindDelay }

// GapPolicy says what becomes of local times that a day skips. Empty is GapShift.
type GapPolicy string

// The policies.
const (
	GapShift GapPolicy = "shift" // once, at the first instant after the gap
	GapSkip  GapPolicy = "skip"  // not that day
)

// OverlapPolicy says what becomes of local times that a day has twice. Empty is OverlapFirst.
type OverlapPolicy string

// The policies.
const (
	OverlapFirst  OverlapPolicy = "first"
	OverlapSecond OverlapPolicy = "second"
	OverlapBoth   OverlapPolicy = "both"
)

// ExcludedPolicy says what becomes of an instant that a calendar excludes. Empty is ExcludedSkip.
type ExcludedPolicy string

// The policies.
const (
	ExcludedSkip     ExcludedPolicy = "skip"
	ExcludedNext     ExcludedPolicy = "next_allowed"
	ExcludedPrevious ExcludedPolicy = "previous_allowed"
)

// Limits of a schedule.
const (
	MaxScheduleCalendars = 8
	MaxJitter            = Duration(24 * time.Hour)
)

// Schedule is when a timer is due. Package schedule checks it and computes its instants; its doc
// states the rules.
type Schedule struct {
	Kind ScheduleKind `json:"kind"`
	// cron: 5, 6 or 7 fields, or a descriptor; instants that coincide are one.
	Specs []string `json:"specs,omitempty"`
	// IANA name; empty is UTC. The API calls it time_zone; rows already hold "zone".
	Zone    string        `json:"zone,omitempty"`
	Gap     GapPolicy     `json:"gap,omitempty"`     // cron
	Overlap OverlapPolicy `json:"overlap,omitempty"` // cron
	At      *time.Time    `json:"at,omitempty"`      // at
	Delay   Duration      `json:"delay,omitempty"`   // delay
	Every   Duration      `json:"every,omitempty"`   // interval, fixed_delay
	// interval: where it counts from; nil is the first activation.
	Anchor *time.Time `json:"anchor,omitempty"`
	// interval: added to the anchor; less than Every.
	Phase Duration `json:"phase,omitempty"`

	// nothing is due before it; what is due at it, is.
	StartAt *time.Time `json:"start_at,omitempty"`
	EndAt   *time.Time `json:"end_at,omitempty"` // nothing is due at it or after it
	// calls of fires in all; 0 is no limit. One that is skipped does not count.
	MaxFires int64    `json:"max_fires,omitempty"`
	Jitter   Duration `json:"jitter,omitempty"` // fires run up to so much after they are due

	// names: an instant must be allowed by all of them.
	Calendars []string       `json:"calendars,omitempty"`
	Excluded  ExcludedPolicy `json:"excluded,omitempty"` // with Calendars
}
