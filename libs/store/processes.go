package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// ProcessTTL is how long a process counts as alive after it was renewed.
const ProcessTTL = time.Minute

// Processes knows the processes on this database, and by which rules of time zones and with which
// settings they work. It replans timers if the rules differ: S31.
type Processes interface {
	// RegisterProcess registers a process and the rules by which it plans. A process calls it
	// before it plans anything, and again if RenewProcess returns not_found. Repeating it changes
	// nothing.
	RegisterProcess(ctx context.Context, p Process, rules map[string]string) error
	// RenewProcess keeps a process registered and returns all of them. It returns not_found if the
	// process never registered, or was not renewed for ProcessTTL.
	RenewProcess(ctx context.Context, id timer.ID) (ProcessList, error)
	// DropProcess removes a process that plans nothing any more. It may be repeated.
	DropProcess(ctx context.Context, id timer.ID) error
	// ReplanZones does the next step of a replan, if one is due and the process has the rules to
	// plan by. A step visits up to limit timers. Error: not_found, as for RenewProcess. Repeating a
	// step whose answer was lost does the next one.
	ReplanZones(ctx context.Context, id timer.ID, limit int) (ZoneReplan, error)
}

// Process is a process of the deployment. All of them plan by a version of the time zones.
type Process struct {
	ID      timer.ID
	Name    string // display name
	Version string // of its time zone data
	Hash    string // of its rules, set by RegisterProcess
	Expands bool   // it is a migrator, which plans timers that others created
	// Settings has those that must be the same in all processes that have them, by name.
	Settings map[string]string
}

// ProcessList is what the store knows of the deployment's processes.
type ProcessList struct {
	Processes []Process // alive ones, in order of id
	Rules     int       // how many different rules timers may have been planned by
	// Database names the database. It is random, made with the schema, and not part of backups.
	Database string
}

// ZoneReplan is the result of a step of a replan.
type ZoneReplan struct {
	Marked int  // timers whose Replan was set
	More   bool // another step is due at once
}
