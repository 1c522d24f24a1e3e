// Package jobs has the jobs that act on many timers of an app, or delete it: their rows, leases and
// progress.
package jobs

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// JobStore starts, runs and lists jobs.
type JobStore struct {
	db    *sqldb.DB
	apps  *apps.Rows
	audit *audit.Trail
}

// New returns the jobs of a database.
func New(db *sqldb.DB, apps *apps.Rows, audit *audit.Trail) *JobStore {
	return &JobStore{db: db, apps: apps, audit: audit}
}
