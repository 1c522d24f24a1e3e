// Package housekeeping removes what has expired, and keeps the partitions of outcomes and attempts.
//
// Files:
//
//	purge.go       removes history, and rows that nobody needs any more
//	purged.go      how far outcomes are removed
//	partitions.go  partitions by day
//	timers.go      removes timers that ended
package housekeeping

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/minutes"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
)

// Housekeeping removes expired rows.
type Housekeeping struct {
	db         *sqldb.DB
	cursors    *minutes.Cursors
	partitions *Partitions
	timers     *timers.Rows

	// MaxPastDue limits how many fires PurgeTimers reads. Tests lower it before the store is used.
	MaxPastDue int
}

// Partitions are those of outcomes and attempts by day.
type Partitions struct {
	db *sqldb.DB

	// MySQL is the engine of a database with partitions, nil: there are none. It is set before the
	// store is used.
	MySQL *mysqlengine.Engine
}

// New returns the housekeeping of a database.
func New(
	db *sqldb.DB,
	cursors *minutes.Cursors,
	rows *timers.Rows,
) (*Housekeeping, *Partitions) {
	partitions := &Partitions{db: db}
	return &Housekeeping{
		db: db, cursors: cursors, partitions: partitions, timers: rows, MaxPastDue: maxPastDue,
	}, partitions
}
