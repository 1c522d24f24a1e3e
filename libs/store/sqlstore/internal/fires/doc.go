// Package fires has the open fires, from their claim to their outcome: it loads, claims, releases,
// defers and records them, gives concurrency slots, and creates fires on request. Fires of
// schedules come from package scheduling.
//
// The way of a fire:
//
//	fires.go         inserts, reads and loads open fires
//	addfires.go      fires on request: run-now and backfill
//	claim.go         claims
//	acquireslots.go  gives slots to fires of timers with limited concurrency
//	defer.go         defers fires of inactive timers
//	release.go       gives fires back, for a retry or another executor; records attempts
//	record.go        records outcomes in batches; one that the database refuses, without details
//	recordlinked.go  records outcomes that other rows depend on: slots, queues, backfills
//	complete.go      completes a fire that its receiver had accepted
//	cancel.go        cancels fires
//	redrive.go       lists failed fires, and creates them again
//	redrivecheck.go  which of them a redrive takes
//
// What the way needs:
//
//	slots.go        which fire of a timer has the slot, and which stands in for the missed ones
//	queues.go       the queue of fires that wait for a slot
//	promotenext.go  gives a slot that became free to the next fire
//
// Questions:
//
//	openfires.go   open fires of an app or timer, page by page
//	ownedfires.go  what sessions own, and what is overdue by app
//	overdue.go     what is overdue, from where the last question ended
package fires

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
)

// Fires is what callers of the store do with open fires.
type Fires struct {
	db      *sqldb.DB
	apps    *apps.Rows
	audit   *audit.Trail
	timers  *timers.Rows
	history *history.Rows
	fires   *Rows
	overdue *overduePositions
}

// Rows reads, writes and ends fires in the transactions of other nouns.
type Rows struct {
	db      *sqldb.DB
	timers  *timers.Rows
	history *history.Rows
}

// New returns the fires of a database.
func New(
	db *sqldb.DB, apps *apps.Rows, audit *audit.Trail, timers *timers.Rows, history *history.Rows,
) (*Fires, *Rows) {
	rows := &Rows{db: db, timers: timers, history: history}
	return &Fires{
		db: db, apps: apps, audit: audit, timers: timers, history: history, fires: rows,
		overdue: newOverduePositions(),
	}, rows
}
