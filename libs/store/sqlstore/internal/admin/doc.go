// Package admin has what operators set for an app: its freeze, its settings and its keys, and which
// sign-ins they have ended.
//
// Files:
//
//	freeze.go       freezes
//	settings.go     settings of apps
//	keys.go         what the two kinds of keys share
//	apikeys.go      API keys
//	signingkeys.go  signing keys
//	signins.go      since when sign-ins of a person count
package admin

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// Admin is what operators do to apps.
type Admin struct {
	db    *sqldb.DB
	apps  *apps.Rows
	audit *audit.Trail
}

// New returns the administration of the apps of a database.
func New(db *sqldb.DB, apps *apps.Rows, audit *audit.Trail) *Admin {
	return &Admin{db: db, apps: apps, audit: audit}
}
