// Package minutes has the minutes of fires: how many buckets each has, the slices by which fires are
// loaded, with their leases, and the cursor before which all are done.
//
// Files:
//
//	minutes.go  how many buckets a minute has: grows the number, and freezes it
//	slices.go   the leases of slices: schedulers give them the next token, triggers take and renew
//	            them
//	cursor.go   the cursor, and how many slices behind it are not done
package minutes

import "github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"

// Minutes counts buckets and leases slices.
type Minutes struct {
	db      *sqldb.DB
	cursors *Cursors
}

// Cursors reads the cursor for the other nouns.
type Cursors struct{ db *sqldb.DB }

// New returns the minutes of a database.
func New(db *sqldb.DB) (*Minutes, *Cursors) {
	cursors := &Cursors{db: db}
	return &Minutes{db: db, cursors: cursors}, cursors
}
