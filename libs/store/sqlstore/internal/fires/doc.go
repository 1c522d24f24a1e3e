// Package fires has the open fires, from their claim to their outcome: it loads, claims, releases,
// defers and records them, gives concurrency slots, and creates fires on request. Fires of
// schedules come from package scheduling.
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
