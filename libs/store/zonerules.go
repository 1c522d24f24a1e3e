package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// ZoneHolderTTL is how long a process counts as using its time zones after it was renewed.
const ZoneHolderTTL = time.Minute

// ZoneRules knows by which rules of time zones the processes plan, and replans timers if they
// differ: S31.
type ZoneRules interface {
	// RegisterZones registers the rules by which a process plans. A process calls it before it
	// plans anything, and again if RenewZones returns not_found. Repeating it changes nothing.
	RegisterZones(ctx context.Context, h ZoneHolder, rules map[string]string) error
	// RenewZones keeps a process registered and returns the rules in use. It returns not_found if
	// the process never registered, or was not renewed for ZoneHolderTTL.
	RenewZones(ctx context.Context, id timer.ID) (ZonesInUse, error)
	// DropZones removes a process that plans nothing any more. It may be repeated.
	DropZones(ctx context.Context, id timer.ID) error
	// ReplanZones does the next step of a replan, if one is due and the process has the rules to
	// plan by. A step visits up to limit timers. Error: not_found, as for RenewZones. Repeating a
	// step whose answer was lost does the next one.
	ReplanZones(ctx context.Context, id timer.ID, limit int) (ZoneReplan, error)
}

// ZoneHolder is a process that plans by a version of the time zones.
type ZoneHolder struct {
	ID      timer.ID
	Name    string // display name of the process
	Version string // of its time zone data
	Hash    string // of its rules, set by RegisterZones
	Expands bool   // it is a migrator, which plans timers that others created
}

// ZonesInUse is the set of rules that the deployment plans by.
type ZonesInUse struct {
	Holders []ZoneHolder // alive ones, in order of id
	Rules   int          // how many different rules timers may have been planned by
}

// ZoneReplan is the result of a step of a replan.
type ZoneReplan struct {
	Marked int  // timers whose Replan was set
	More   bool // another step is due at once
}
