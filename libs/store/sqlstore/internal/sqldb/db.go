package sqldb

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// DB runs statements on one database. It is safe for concurrent use.
type DB struct {
	Dialect *Dialect
	Engine  engine.Engine
	Timeout time.Duration // bounds every call whose context has no earlier deadline
	Log     zerolog.Logger
	// OnStatement is called with every statement, for tests. It is set before the database is used.
	OnStatement func(text string)

	faults  *faults
	failure atomic.Pointer[writeFailure] // the last; nil: none
}

// New returns a DB without faults.
func New(d *Dialect, e engine.Engine, log zerolog.Logger) *DB {
	return &DB{
		Dialect: d, Engine: e, Timeout: engine.DefaultTimeout, Log: log, faults: newFaults(nil),
	}
}
