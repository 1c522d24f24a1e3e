package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestMySQLOverdueReadsABoundedPart checks that a look for overdue fires of a shard does not read all
// of a backlog that lies in another one, and that later looks find what lies behind it.
func TestMySQLOverdueReadsABoundedPart(t *testing.T) {
	t.Parallel()
	requireBoundedOverdue(t, openMySQL(t, sqlstore.MySQLOptions{DSN: testenv.MySQL(t)}))
}

// TestSQLiteOverdueReadsABoundedPart is the same on SQLite.
func TestSQLiteOverdueReadsABoundedPart(t *testing.T) {
	t.Parallel()
	requireBoundedOverdue(t, openSQLite(t, sqlstore.SQLiteOptions{Dir: t.TempDir()}))
}

func requireBoundedOverdue(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	ctx := t.Context()
	const timers, each = 45, 500 // more than one call reads
	backlog := time.Now().Add(-20 * time.Minute).UnixMilli()
	create := func(prefix string, timers, each int, bucket int32, at int64) (ids []timer.FireID) {
		items := make([]store.NewTimer, timers)
		for i := range items {
			items[i] = store.NewTimer{App: "app", Name: fmt.Sprint(prefix, i), Activate: true}
		}
		out, err := s.Create(ctx, items, func(tm *timer.Timer, nowMS int64) store.Plan {
			p := store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
			for i := range int64(each) {
				p.Fires = append(p.Fires, timer.Fire{
					FireID:  timer.FireID{Timer: tm.ID, DueMS: at + i},
					RunAtMS: at + i,
					Bucket:  bucket,
				})
			}
			return p
		})
		require.NoError(t, err)
		for _, c := range out {
			require.NoError(t, c.Err)
			for _, f := range c.Fires {
				ids = append(ids, f.FireID)
			}
		}
		return ids
	}
	create("backlog", timers, each, 0, backlog)
	behind := create("behind", 1, 1, 1, backlog+5*timer.MinuteMS)
	look := func(shard int32) (ids []timer.FireID) {
		t.Helper()
		found, err := s.Overdue(ctx, store.OverdueQuery{Shard: shard, Shards: 2, Limit: 50})
		require.NoError(t, err)
		for _, f := range found {
			require.Equal(t, shard, f.Bucket)
			ids = append(ids, f.FireID)
		}
		return ids
	}
	require.Len(t, look(0), 50)
	require.Empty(t, look(1), "it has read its part of the other shard's rows")
	require.Equal(t, behind, look(1))
	require.Equal(t, behind, look(1), "it went on from the start, and has not read all again")
}
