// Package history has what became of fires: their outcomes and attempts, what the API reads of
// them, and the events about outcomes that are not published yet.
//
// Files:
//
//	outcomes.go         inserts outcomes, and says which fires have one
//	outcomerow.go       a row of outcomes
//	attempts.go         attempts
//	targetattempts.go   attempts by target
//	lasterrors.go       the last error of each fire
//	failures.go         the keys of failed outcomes
//	history.go          the history of a timer
//	apphistory.go       the history of an app
//	apphistorycount.go  counts and quantiles of an app
//	lastoutcomes.go     the latest outcome of each timer
//	outcomeevents.go    outcome events that are not published
package history

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
)

// Reader is what callers of the store read of outcomes.
type Reader struct {
	db      *sqldb.DB
	apps    *apps.Rows
	timers  *timers.Rows
	history *Rows
}

// Rows inserts and finds outcomes and attempts in the transactions of other nouns.
type Rows struct{ db *sqldb.DB }

// New returns the outcomes of a database.
func New(db *sqldb.DB, apps *apps.Rows, timers *timers.Rows) (*Reader, *Rows) {
	rows := &Rows{db: db}
	return &Reader{db: db, apps: apps, timers: timers, history: rows}, rows
}
