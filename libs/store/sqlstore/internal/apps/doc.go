// Package apps has the rows of apps: their ids and names, locks on them, and what the API reads of
// them. A freeze, the settings and the keys of an app are in package admin.
package apps

import "github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"

// Apps is what callers of the store read of apps.
type Apps struct {
	db   *sqldb.DB
	apps *Rows
}

// Rows reads, inserts and locks apps for the other nouns.
type Rows struct {
	db    *sqldb.DB
	cache *cache
}

// New returns the apps of a database.
func New(db *sqldb.DB) (*Apps, *Rows) {
	rows := &Rows{db: db, cache: newCache()}
	return &Apps{db: db, apps: rows}, rows
}
