// Package search finds and counts timers by their names, attributes, times and latest outcomes.
//
// Files:
//
//	search.go         a search, page by page
//	searchdrivers.go  estimates what each index would find, and chooses one
//	searchsources.go  reads candidates from the chosen index
//	searchexamine.go  checks candidates by all requirements; those of a label selector become
//	                  conditions of its statement
//	searchcount.go    counts
package search

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
)

// Searcher searches timers.
type Searcher struct {
	db      *sqldb.DB
	apps    *apps.Rows
	timers  *timers.Rows
	history *history.Rows

	limits *Limits
}

// New returns the search of a database.
func New(
	db *sqldb.DB, apps *apps.Rows, timers *timers.Rows, history *history.Rows,
	limits *Limits,
) *Searcher {
	return &Searcher{
		db: db, apps: apps, timers: timers, history: history, limits: limits,
	}
}
