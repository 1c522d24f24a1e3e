// Package calendars has the calendars of apps and the rules of time zones. A change of either marks
// the timers that depend on it, and their next expansion plans them again.
//
//	calendars.go   calendars; a change marks the timers that name it
//	processes.go   the alive processes, and which rules of time zones they have
//	zonereplan.go  after a change of rules: marks the timers of changed zones, page by page
package calendars

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
)

// CalendarStore writes and reads calendars, and walks through the timers after a change of time
// zones.
type CalendarStore struct {
	db     *sqldb.DB
	apps   *apps.Rows
	audit  *audit.Trail
	timers *timers.Rows
	zones  *Zones
}

// Zones tells in which time zones the rules of processes differ.
type Zones struct{ db *sqldb.DB }

// New returns the calendars of a database.
func New(
	db *sqldb.DB, apps *apps.Rows, audit *audit.Trail, timers *timers.Rows,
) (*CalendarStore, *Zones) {
	zones := &Zones{db: db}
	return &CalendarStore{db: db, apps: apps, audit: audit, timers: timers, zones: zones}, zones
}
