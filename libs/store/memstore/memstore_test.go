package memstore_test

import (
	"testing"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
)

func TestMemstore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Env {
		return storetest.Env{Stores: []store.Store{memstore.New(time.Now)}, NoDryRuns: true}
	})
}

func TestReadersFindTheirEntryOfTheChangeLog(t *testing.T) {
	t.Parallel()
	var later time.Duration
	st := memstore.New(func() time.Time { return time.Now().Add(later) })
	storetest.ReadersFindTheirEntry(t, storetest.Env{Stores: []store.Store{st}},
		func(d time.Duration) { later += d })
}

func TestEndedSignInsArePurged(t *testing.T) {
	t.Parallel()
	storetest.PurgeEndedSignIns(t, func(now func() time.Time) store.Store {
		return memstore.New(now)
	})
}
