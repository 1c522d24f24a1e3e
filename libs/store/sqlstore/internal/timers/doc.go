// Package timers has the rows of timers and what belongs to them: the versions of their
// definitions, labels, uses of calendars and the change log. The API reads them here. What creates,
// changes and expands timers is in package scheduling.
//
// Files:
//
//	timers.go        reads timers, their states and lists
//	timerrow.go      a row of timers
//	versions.go      versions of definitions
//	unreadable.go    timers that this release cannot read
//	attributes.go    labels and target hosts, for searches
//	metered.go       which timers have metrics
//	namekey.go       a name within an app
//	changes.go       the change log
//	calendaruses.go  which timers use a calendar
//	remove.go        removes timers that ended
//	replanrow.go     which timers wait to be replanned
//	reseal.go        encrypts stored secrets with another key
package timers

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// Timers is what callers of the store read of timers.
type Timers struct {
	db     *sqldb.DB
	apps   *apps.Rows
	timers *Rows
}

// Rows reads, writes and locks timers in the transactions of other nouns.
type Rows struct {
	db   *sqldb.DB
	apps *apps.Rows
}

// New returns the timers of a database.
func New(db *sqldb.DB, apps *apps.Rows) (*Timers, *Rows) {
	rows := &Rows{db: db, apps: apps}
	return &Timers{db: db, apps: apps, timers: rows}, rows
}
