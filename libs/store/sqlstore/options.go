package sqlstore

import (
	"time"

	"github.com/rs/zerolog"
)

// Defaults of the options.
const (
	DefaultMaxOpen = 16
	DefaultTimeout = 10 * time.Second
)

// MySQLOptions are the settings of a store on MySQL or MariaDB.
type MySQLOptions struct {
	// DSN in the form of go-sql-driver: "user:password@tcp(host:3306)/database". Session settings
	// that the store depends on are added to it.
	DSN string
	// MaxCompletions is how many connections the store opens at the most, besides two for leases and
	// sessions; 0 is DefaultMaxOpen.
	MaxOpen int
	// Timeout bounds every call whose context has no earlier deadline; 0 is DefaultTimeout.
	Timeout time.Duration
	Logger  zerolog.Logger
	Faults  *Faults // nil: none
}

// SQLiteOptions are the settings of a store in a file.
type SQLiteOptions struct {
	// Dir is the data directory, made where it is missing; empty: a temporary one without fsync,
	// removed by Close.
	Dir string
	// Now is the store's clock; nil is time.Now.
	Now    func() time.Time
	Logger zerolog.Logger
	Faults *Faults // nil: none
}

// Faults make a store misbehave, the same way for the same seed and order of calls. Probabilities
// go from 0 to 1.
type Faults struct {
	Seed     uint64
	FailRead float64 // a read fails
	// FailBefore: a transaction is rolled back instead of committed, and the call fails.
	FailBefore float64
	FailAfter  float64       // a transaction is committed, and the call says that it failed
	Delay      time.Duration // each call waits up to so long first
}
