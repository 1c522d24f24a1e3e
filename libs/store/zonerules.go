package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// ZoneHolderTTL is how long after it was renewed a process counts as planning by its time zones.
const ZoneHolderTTL = time.Minute

// ZoneRules knows by which rules of time zones the processes plan, and replans timers where they
// differ: see S31.
type ZoneRules interface {
	// RegisterZones notes by which rules a process plans. Call it before the process plans
	// anything, and again where RenewZones does not find it. Repeating it changes nothing.
	RegisterZones(ctx context.Context, h ZoneHolder, rules map[string]string) error
	// RenewZones keeps a process registered and returns what is known. Error: not_found, where the
	// process was not renewed for ZoneHolderTTL or never registered.
	RenewZones(ctx context.Context, id timer.ID) (ZonesInUse, error)
	// DropZones takes a process out that plans nothing any more. It may be repeated.
	DropZones(ctx context.Context, id timer.ID) error
	// ReplanZones does the next step of a replan, if one is due and the process's rules are those
	// to plan by: it looks at up to limit timers. Error: not_found as RenewZones. Repeating a step
	// whose answer was lost does the next one.
	ReplanZones(ctx context.Context, id timer.ID, limit int) (ZoneReplan, error)
}

// ZoneHolder is a process that plans by a version of the time zones.
type ZoneHolder struct {
	ID      timer.ID
	Name    string // of the process, for people
	Version string // of its time zones
	Hash    string // of its rules; RegisterZones sets it
	Expands bool   // it is a migrator: it plans timers that others made
}

// ZonesInUse is what the deployment plans by.
type ZonesInUse struct {
	Holders []ZoneHolder // that are live, in order of id
	Rules   int          // how many different rules timers may have been planned by
}

// ZoneReplan is what a step of a replan did.
type ZoneReplan struct {
	Marked int  // timers whose Replan was set
	More   bool // there is another step to do at once
}
