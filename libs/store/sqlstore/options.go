package sqlstore

import (
	"crypto/tls"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/scheduling"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/sqliteengine"
)

// Defaults of the options.
const (
	DefaultMaxOpen = 16
	DefaultTimeout = engine.DefaultTimeout
	// DefaultMaxEditFires is the largest number of fires that an edit plans itself.
	DefaultMaxEditFires = scheduling.DefaultMaxEditFires
)

// SQLiteFile is the name of the database in a data directory.
const SQLiteFile = sqliteengine.File

// MySQLOptions are the settings of a store on MySQL or MariaDB.
type MySQLOptions struct {
	// DSN has the form of go-sql-driver: "user:password@tcp(host:3306)/database". The address may
	// be a list of nodes in order of preference. The store adds the session settings that it
	// depends on.
	DSN string
	// Have are the capabilities that the store may use; nil: those that the servers are found to
	// have.
	Have *engine.Capabilities
	// TLS returns the configuration of each new connection, without the server's name. nil: as the
	// DSN says.
	TLS func() *tls.Config
	// MaxOpen is the largest number of connections, besides two for leases and sessions; 0 is
	// DefaultMaxOpen.
	MaxOpen int
	// Timeout bounds every call whose context has no earlier deadline; 0 is DefaultTimeout.
	Timeout time.Duration
	Logger  zerolog.Logger
	Faults  *Faults // nil: no faults
}

// SQLiteOptions are the settings of a store in a file.
type SQLiteOptions struct {
	// Dir is the data directory, which is created if missing. Empty stands for a temporary
	// directory without fsync, which Close removes.
	Dir string
	// Now is the store's clock; nil is time.Now.
	Now func() time.Time
	// MaxEditFires is the largest number of fires that an edit plans itself; 0 is
	// DefaultMaxEditFires. Simulations set it lower, so that edits of few fires have a follow-up.
	MaxEditFires int
	Logger       zerolog.Logger
	Faults       *Faults // nil: no faults
}

// Faults makes a store misbehave, in the same way for the same seed and order of calls.
type Faults = sqldb.Faults
