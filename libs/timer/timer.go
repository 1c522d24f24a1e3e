package timer

import "math"

// Status is the status of a timer.
type Status string

// The statuses. Only active timers are expanded, and only fires of active timers are called.
const (
	StatusInactive Status = "inactive"
	StatusActive   Status = "active"
	// StatusPaused is inactive for a recorded reason. The pause may have an end, at which the timer
	// becomes active again.
	StatusPaused  Status = "paused"
	StatusDeleted Status = "deleted"
)

// Known reports whether this release knows the status. A newer release may have stored another one.
func (s Status) Known() bool {
	switch s {
	case StatusInactive, StatusActive, StatusPaused, StatusDeleted:
		return true
	}
	return false
}

// NeverMS is the next due instant of a timer that has no more fires. It sorts after every instant.
const NeverMS int64 = math.MaxInt64

// ReservedApp owns the timers that Carillon registers for itself. The API shows them and rejects
// changes to them.
const ReservedApp = "carillon"

// Limits of user input.
const (
	MaxAppLen    = 64        // bytes
	MaxNameLen   = 128       // bytes
	MaxURLLen    = 2048      // bytes
	MaxHeaders   = 64        // header names
	MaxHeaderLen = 8 << 10   // bytes of all names and values together
	MaxBodyLen   = 256 << 10 // bytes
	MaxSpecs     = 16        // cron expressions per timer
	MaxSpecLen   = 256       // bytes
	MaxLabels    = 32        // labels per timer
	MaxLabelLen  = 256       // bytes per name or value
	MaxReasonLen = 256       // bytes; reasons of pauses and freezes
)

// Timer is a definition that an app registered, and the progress of its expansion.
type Timer struct {
	ID         ID
	App        string
	AppID      int64 // id of the app's row; fires and tasks carry it instead of the name
	Name       string
	Status     Status
	Version    int32 // version of Definition; from 1
	Definition Definition

	ActiveSinceMS int64 // last activation; 0 before the first
	ActiveEpoch   int64 // counts activations
	// NextDueMS is the first due instant not yet expanded. It is 0 before the first activation, and
	// NeverMS if there is none.
	NextDueMS int64
	// LastDueMS is the latest due instant that the current plan has expanded, 0 if there is none.
	// Once it has passed, NextDueMS is the next due instant.
	LastDueMS  int64
	ExpandAtMS int64 // when a migrator expands the timer next
	// FiresCreated counts the fires of series 0 inserted so far. It does not count fires that a new
	// version removed, or that were skipped while max_fires applies.
	FiresCreated int64
	// AnchorMS is the first activation, from which interval, @every and delay count. It is 0 before
	// the first activation.
	AnchorMS int64
	// VersionMS is when Version took effect. Fires due later belong to Version; fires due until
	// then keep their own version.
	VersionMS int64
	// Replan means that expanded fires may be wrong: a calendar or a time zone changed, or the
	// definition changed while inactive. See package store, S20.
	Replan bool

	// InactiveSinceMS is when the current inactive status began. It is 0 while the timer is active,
	// and if it was never active.
	InactiveSinceMS int64

	// Origin is the W3C traceparent of the request that made the timer, empty if it had none.
	Origin string

	PauseReason   string // only of StatusPaused
	PausedUntilMS int64  // only of StatusPaused: when the timer becomes active again; 0 means never

	// Calendars are the current contents of Definition.Schedule.Calendars, in the same order.
	Calendars []Calendar

	CreatedMS int64
	UpdatedMS int64
}

// Zones returns the names of the time zones that influence the due instants of t. "" is UTC. A name
// may occur twice. Calendars must be filled in.
func (t *Timer) Zones() []string {
	s := &t.Definition.Schedule
	var names []string
	switch s.Kind {
	case KindAt, KindDelay, KindInterval, KindFixedDelay:
		if len(t.Calendars) > 0 { // a calendar without a zone uses the schedule's
			names = append(names, s.Zone)
		}
	case KindCron:
		names = append(names, s.Zone)
	default: // perhaps by local time
		names = append(names, s.Zone)
	}
	for i := range t.Calendars {
		if z := t.Calendars[i].Zone; z != "" {
			names = append(names, z)
		}
	}
	return names
}

// Definition is the immutable content of one version of a timer.
type Definition struct {
	Schedule    Schedule    `json:"schedule"`
	Target      Target      `json:"target"`
	Retry       Retry       `json:"retry"`
	Misfire     Misfire     `json:"misfire,omitzero"`
	Concurrency Concurrency `json:"concurrency,omitzero"`

	Fanout

	Priority Priority          `json:"priority,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`  // for users, filters and templates
	Metrics  bool              `json:"metrics,omitempty"` // executors have series of the timer

	// Unreadable says why a stored definition, or one of its calendars, cannot be read: a newer
	// release has written it, or it is damaged. What could not be read is then missing. It is empty
	// if all could be read, is not stored, and no store takes a definition that has it.
	Unreadable string `json:"-"`
}

// BodyBytes returns the size of the bodies of all targets, in bytes.
func (d *Definition) BodyBytes() int {
	n := len(d.Target.Body) + len(d.Target.Bytes)
	for i := range d.Targets {
		n += len(d.Targets[i].Body) + len(d.Targets[i].Bytes)
	}
	return n
}

// Priority decides which fires go first if not all can run. Empty is PriorityNormal.
type Priority string

// The priorities.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// PriorityLevel is the encoding of a Priority in fires and tasks.
type PriorityLevel uint8

// The priority levels.
const (
	LevelNormal PriorityLevel = 0
	LevelHigh   PriorityLevel = 1
	LevelLow    PriorityLevel = 2
)

// Known reports whether this release knows the priority. A newer release may have stored another
// one.
func (p Priority) Known() bool {
	switch p {
	case "", PriorityHigh, PriorityNormal, PriorityLow:
		return true
	}
	return false
}

// PriorityLevel returns the level that encodes p. Planners refuse an unknown priority, which has
// LevelNormal.
func (p Priority) PriorityLevel() PriorityLevel {
	switch p {
	case PriorityHigh:
		return LevelHigh
	case PriorityLow:
		return LevelLow
	case "", PriorityNormal:
	}
	return LevelNormal
}

// State is the part of a timer, besides its definition, that an executor needs.
type State struct {
	ID            ID
	App           string
	AppID         int64
	Name          string // for templates
	Origin        string // see Timer
	Status        Status
	Version       int32
	ActiveSinceMS int64
	ActiveEpoch   int64
	AnchorMS      int64 // see Timer
	VersionMS     int64 // see Timer
	// PlanVersion is the first version with the current instants. Fires of PlanVersion or later
	// belong to the current version.
	PlanVersion int32

	InactiveSinceMS int64 // see Timer
	PausedUntilMS   int64 // see Timer

	Frozen bool // the whole app is frozen
	// Running is the fire that other fires wait for, or that replaced another. Zero means none. See
	// Concurrency.
	Running FireID
	// LastRunning is Running or, while that is zero, the fire that was it last, if that is known.
	LastRunning FireID
}

// Exists reports whether the state was found. The row of a deleted timer may be gone.
func (s State) Exists() bool { return s.Status != "" }
