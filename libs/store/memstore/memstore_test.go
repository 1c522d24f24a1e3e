package memstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/timer"
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

func TestBackfillsEndAtTheirBound(t *testing.T) {
	t.Parallel()
	st := memstore.New(time.Now)
	storetest.BackfillsEndAtTheirBound(t, storetest.Env{Stores: []store.Store{st}},
		func(store.Backfill) {
			_, _, err := st.ExpandBackfills(t.Context(), 1, func(
				tm *timer.Timer, b *store.Backfill, nowMS int64,
			) (fires []timer.Fire, nextMS int64, err error) {
				nextMS = b.NextMS
				for ; len(fires) < store.MaxBackfillFires-3; nextMS++ {
					id := timer.FireID{Timer: tm.ID, DueMS: nextMS, Series: int64(b.ID)}
					fires = append(fires, timer.Fire{FireID: id, RunAtMS: nowMS})
				}
				return fires, nextMS, nil
			})
			require.NoError(t, err)
		})
}

func TestAuditFeedPassesTheFuture(t *testing.T) {
	t.Parallel()
	var later time.Duration
	st := memstore.New(func() time.Time { return time.Now().Add(later) })
	storetest.AuditFeedPassesTheFuture(t, storetest.Env{Stores: []store.Store{st}},
		func(add func(name string), name string, by time.Duration) {
			later = by
			add(name)
			later = 0
		})
}
