// Package timers has the rows of timers and what belongs to them: the versions of their
// definitions, labels, uses of calendars and the change log. The API reads them here. What creates,
// changes and expands timers is in package scheduling.
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
