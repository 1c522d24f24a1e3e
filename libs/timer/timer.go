package timer

import "math"

// Status of a timer.
type Status string

// The statuses. Only an active timer is expanded, and only an active timer's fires are called.
const (
	StatusInactive Status = "inactive"
	StatusActive   Status = "active"
	// StatusPaused: inactive for a reason, and perhaps until an instant, at which it is activated
	// again.
	StatusPaused  Status = "paused"
	StatusDeleted Status = "deleted"
)

// NeverMS is the next due instant of a timer that has no more fires. It sorts behind every instant.
const NeverMS int64 = math.MaxInt64

// ReservedApp owns the timers that Carillon registers for itself. The API shows them like any
// app's, and refuses to change them.
const ReservedApp = "carillon"

// Limits of what a user may register.
const (
	MaxAppLen    = 64        // bytes
	MaxNameLen   = 128       // bytes
	MaxURLLen    = 2048      // bytes
	MaxHeaders   = 64        // names
	MaxHeaderLen = 8 << 10   // bytes of all names and values
	MaxBodyLen   = 256 << 10 // bytes
	MaxSpecs     = 16        // cron expressions of one timer
	MaxSpecLen   = 256       // bytes
	MaxLabels    = 32        // of a timer
	MaxLabelLen  = 256       // bytes of a name or value
	MaxReasonLen = 256       // bytes, of a pause or a freeze
)

// Timer is a definition that an app registered, and where its expansion stands.
type Timer struct {
	ID         ID
	App        string
	AppID      int64 // the app's row; what fires and tasks carry in place of the name
	Name       string
	Status     Status
	Version    int32 // of Definition; from 1
	Definition Definition

	ActiveSinceMS int64 // when it was last activated; 0 before the first time
	ActiveEpoch   int64 // counts activations
	// NextDueMS: the first due instant not yet expanded; 0 before the first activation; NeverMS
	// when there is none.
	NextDueMS  int64
	ExpandAtMS int64 // when a migrator shall expand it next
	// FiresCreated: fires of series 0 inserted so far; those that a new version took back, or that
	// were skipped while max_fires counts, are not counted.
	FiresCreated int64
	// AnchorMS: the first activation: what interval, @every and delay count from; 0 before it.
	AnchorMS int64
	// VersionMS: when Version came into force: a fire due later belongs to it, one due until then
	// to the version that it has.
	VersionMS int64
	// Replan: what is expanded may be wrong (a calendar or a time zone changed, or the definition
	// while it was not active): see package store, S20.
	Replan bool

	// InactiveSinceMS is when the present status other than active began; 0: it is active, or never
	// was.
	InactiveSinceMS int64

	PauseReason   string // of StatusPaused
	PausedUntilMS int64  // of StatusPaused: when it is activated again; 0 is never

	// contents of Definition.Schedule.Calendars, in that order, as the store has them now.
	Calendars []Calendar

	CreatedMS int64
	UpdatedMS int64
}

// Zones returns the names of the time zones that move the due instants of t: "" is UTC. A zone may
// be named twice. Calendars must be filled in.
func (t *Timer) Zones() []string {
	s := &t.Definition.Schedule
	var names []string
	switch s.Kind {
	case KindAt, KindDelay, KindInterval, KindFixedDelay:
		if len(t.Calendars) > 0 { // one without a zone of its own goes by the schedule's
			names = append(names, s.Zone)
		}
	default:
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
	Labels   map[string]string `json:"labels,omitempty"` // for people, filters and templates
}

// Priority says which fires go first where not all can run. Empty is PriorityNormal.
type Priority string

// The priorities.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// PriorityLevel is a priority as fires and tasks carry it.
type PriorityLevel uint8

// The priorities.
const (
	LevelNormal PriorityLevel = 0
	LevelHigh   PriorityLevel = 1
	LevelLow    PriorityLevel = 2
)

// PriorityLevel returns the priority of a priority.
func (p Priority) PriorityLevel() PriorityLevel {
	switch p {
	case PriorityHigh:
		return LevelHigh
	case PriorityLow:
		return LevelLow
	default:
		return LevelNormal
	}
}

// State is what an executor must know of a timer besides its definition.
type State struct {
	ID            ID
	App           string
	AppID         int64
	Name          string // for templates
	Status        Status
	Version       int32
	ActiveSinceMS int64
	ActiveEpoch   int64
	AnchorMS      int64 // see Timer
	VersionMS     int64 // see Timer
	// PlanVersion: since which version the instants are the same: fires of it, and of those after
	// it, are the present version's.
	PlanVersion int32

	InactiveSinceMS int64 // see Timer
	PausedUntilMS   int64 // see Timer

	Frozen bool // the whole app is
	// Running: the fire that others wait for, or that took the place of another; zero: none. See
	// Concurrency.
	Running FireID
}

// Exists tells whether the state was found at all: a deleted timer's row may be gone.
func (s State) Exists() bool { return s.Status != "" }
