package timer

import (
	"slices"
	"time"
)

// ScheduleKind is how a schedule defines its instants.
type ScheduleKind string

// The kinds.
const (
	KindCron     ScheduleKind = "cron"     // by Specs
	KindInterval ScheduleKind = "interval" // at a fixed rate: Anchor + Phase + n × Every
	// KindFixedDelay is due Every after the end of the last fire, one fire at a time.
	KindFixedDelay ScheduleKind = "fixed_delay"
	// KindAt is due at At. If At is past at the first activation, it is due at that moment.
	KindAt    ScheduleKind = "at"
	KindDelay ScheduleKind = "delay" // due Delay after the first activation
)

// Known reports whether this release knows the kind. A newer release may have stored another one.
func (k ScheduleKind) Known() bool {
	switch k {
	case KindCron, KindInterval, KindFixedDelay, KindAt, KindDelay:
		return true
	}
	return false
}

// OneShot reports whether schedules of this kind have exactly one instant.
func (k ScheduleKind) OneShot() bool { return k == KindAt || k == KindDelay }

// Repeats reports whether schedules of this kind have any number of instants, which do not depend on
// when calls end.
func (k ScheduleKind) Repeats() bool { return k == KindCron || k == KindInterval }

// GapPolicy decides what happens to local times that a clock change skips. Empty is GapShift.
type GapPolicy string

// The policies.
const (
	GapShift GapPolicy = "shift" // once, at the first instant after the gap
	GapSkip  GapPolicy = "skip"  // not on that day
)

// Known reports whether this release knows the policy. A newer release may have stored another one.
func (p GapPolicy) Known() bool {
	switch p {
	case "", GapShift, GapSkip:
		return true
	}
	return false
}

// OverlapPolicy decides what happens to local times that occur twice in a day. Empty is
// OverlapFirst.
type OverlapPolicy string

// The policies.
const (
	OverlapFirst  OverlapPolicy = "first"
	OverlapSecond OverlapPolicy = "second"
	OverlapBoth   OverlapPolicy = "both"
)

// Known reports whether this release knows the policy. A newer release may have stored another one.
func (p OverlapPolicy) Known() bool {
	switch p {
	case "", OverlapFirst, OverlapSecond, OverlapBoth:
		return true
	}
	return false
}

// ExcludedPolicy decides what happens to instants that a calendar excludes. Empty is ExcludedSkip.
type ExcludedPolicy string

// The policies.
const (
	ExcludedSkip     ExcludedPolicy = "skip"
	ExcludedNext     ExcludedPolicy = "next_allowed"
	ExcludedPrevious ExcludedPolicy = "previous_allowed"
)

// Known reports whether this release knows the policy. A newer release may have stored another one.
func (p ExcludedPolicy) Known() bool {
	switch p {
	case "", ExcludedSkip, ExcludedNext, ExcludedPrevious:
		return true
	}
	return false
}

// Limits of a schedule.
const (
	MaxScheduleCalendars = 8
	MaxJitter            = Duration(24 * time.Hour)
)

// Schedule defines when a timer is due. Package schedule validates it and computes its instants.
// Its package comment states the rules.
type Schedule struct {
	Kind ScheduleKind `json:"kind"`
	// Specs are cron expressions of 5, 6 or 7 fields, or descriptors. Coinciding instants are one
	// fire.
	Specs []string `json:"specs,omitempty"`
	// Zone is an IANA name; empty means UTC. The API calls it time_zone, but stored rows use
	// "zone".
	Zone    string        `json:"zone,omitempty"`
	Gap     GapPolicy     `json:"gap,omitempty"`     // cron
	Overlap OverlapPolicy `json:"overlap,omitempty"` // cron
	At      *time.Time    `json:"at,omitempty"`      // at
	Delay   Duration      `json:"delay,omitempty"`   // delay
	Every   Duration      `json:"every,omitempty"`   // interval, fixed_delay
	// Anchor is the origin of an interval. nil means the first activation.
	Anchor *time.Time `json:"anchor,omitempty"`
	// Phase is added to the anchor of an interval. It is less than Every.
	Phase Duration `json:"phase,omitempty"`

	// StartAt is the earliest instant that may be due (inclusive).
	StartAt *time.Time `json:"start_at,omitempty"`
	EndAt   *time.Time `json:"end_at,omitempty"` // exclusive end of the due instants
	// MaxFires limits the fires that are called; 0 means no limit. Skipped fires do not count.
	MaxFires int64    `json:"max_fires,omitempty"`
	Jitter   Duration `json:"jitter,omitempty"` // largest random delay of a fire after it is due

	// Calendars are names. An instant must be allowed by all of them.
	Calendars []string       `json:"calendars,omitempty"`
	Excluded  ExcludedPolicy `json:"excluded,omitempty"` // only with Calendars
}

// SameInstant reports whether two schedules are one-shots that are due at the same instant, if both
// begin at the same time.
func (s *Schedule) SameInstant(o *Schedule) bool {
	return s.Kind.OneShot() && s.Kind == o.Kind && sameTime(s.At, o.At) && s.Delay == o.Delay &&
		sameTime(s.StartAt, o.StartAt) && sameTime(s.EndAt, o.EndAt) &&
		slices.Equal(s.Calendars, o.Calendars) && s.Excluded == o.Excluded &&
		(len(s.Calendars) == 0 || s.Zone == o.Zone)
}

func sameTime(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}
