package sqlstore

import (
	"context"
	"io/fs"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Watch calls f with the text of every statement from now on. It is to be called before the store is used.
func (s *Store) Watch(f func(text string)) { s.watcher = f }

// SetIDs makes the store take its timer ids from now: two stores with a clock that stands make the same ids.
func (s *Store) SetIDs(now func() time.Time) { s.ids = timer.NewIDs(now) }

// Trim is what Keep does to outcomes and attempts, at an instant of the test's.
func (s *Store) Trim(ctx context.Context, nowMS, boundMS int64) error {
	return s.trim(ctx, nowMS, boundMS)
}

// Migrations are the files of the migrations.
func Migrations() fs.FS { return migrations }

// DueSweeps is how many sweeps have come for a fire so far past its run.
func DueSweeps(past time.Duration) int32 { return dueSweeps(past.Milliseconds()) }

// OtherStatements are those that no watcher sees: they are sent below the store.
func OtherStatements() []string {
	return []string{migrateLock.takeText(), keepLock.releaseText(), setIsolation}
}
