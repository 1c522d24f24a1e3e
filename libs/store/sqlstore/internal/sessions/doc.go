// Package sessions has the sessions of processes: one that ends loses its claims and leases.
package sessions

import "github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"

// Sessions opens, renews and ends sessions.
type Sessions struct{ db *sqldb.DB }

// Rows changes sessions for the store itself.
type Rows struct{ db *sqldb.DB }

// New returns the sessions of a database.
func New(db *sqldb.DB) (*Sessions, *Rows) { return &Sessions{db: db}, &Rows{db: db} }
