package sqldb

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// writeFailureAge is how long a failed write is reported. A write that succeeds does not end it: on
// a full disk, small ones still do.
const writeFailureAge = time.Minute

// writeFailure is a write that failed because of the database.
type writeFailure struct {
	at  time.Time
	err error
}

// noteWrite keeps a write's error if the database is the reason, and not the caller's time.
func (s *DB) noteWrite(ctx context.Context, raw, translated error) {
	if raw != nil && ctx.Err() == nil && s.Dialect.ClassOf(raw) == engine.ClassUnavailable {
		s.failure.Store(&writeFailure{time.Now(), translated})
	}
}

// LastWriteError returns why the last write failed that the database could not do, for a minute.
func (s *DB) LastWriteError() error {
	f := s.failure.Load()
	if f == nil {
		return nil
	}
	age := time.Since(f.at)
	if age > writeFailureAge {
		return nil
	}
	return fmt.Errorf("a write failed %s ago: %w", age.Round(time.Second), f.err)
}
