// Package audit has the audit trail: transactions add entries to it, the API reads it, and its feed
// passes entries on.
//
//	audit.go      adds entries, in the transaction of the change
//	auditread.go  reads the trail, and purges expired entries
//	auditfeed.go  the feed: its lease, its position, and the entries after it
package audit

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// Audit is what callers of the store do with the audit trail.
type Audit struct {
	db    *sqldb.DB
	apps  *apps.Rows
	audit *Trail
}

// Trail adds entries in the transactions of other nouns.
type Trail struct{ db *sqldb.DB }

// New returns the audit trail of a database.
func New(db *sqldb.DB, apps *apps.Rows) (*Audit, *Trail) {
	trail := &Trail{db: db}
	return &Audit{db: db, apps: apps, audit: trail}, trail
}
