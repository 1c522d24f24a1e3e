package sqlstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestProcessesExpire has a process that was killed and one that was stopped and continues. After
// a minute neither counts, and the second has to register again.
func TestProcessesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Now: time.Now})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		require.NoError(t, s.Migrate(t.Context()))
		ctx := t.Context()
		v1, v2 := map[string]string{"Europe/Berlin": "1"}, map[string]string{"Europe/Berlin": "2"}
		old, stopped, is := timer.ID(1), timer.ID(2), timer.ID(3)
		require.NoError(t, s.RegisterProcess(ctx, store.Process{ID: old, Version: "a"}, v1))
		require.NoError(t, s.RegisterProcess(ctx, store.Process{ID: stopped, Version: "a"}, v1))
		require.NoError(t, s.RegisterProcess(ctx, store.Process{ID: is, Version: "b"}, v2))
		rules := func() int {
			t.Helper()
			in, err := s.RenewProcess(ctx, is)
			require.NoError(t, err)
			_, err = s.ReplanZones(ctx, is, 10)
			require.NoError(t, err)
			return in.Rules
		}
		for range 5 {
			require.Equal(t, 2, rules())
			time.Sleep(10 * time.Second)
		}
		_, err = s.RenewProcess(ctx, stopped)
		require.NoError(t, err)
		time.Sleep(store.ProcessTTL / 2)
		in, err := s.RenewProcess(ctx, is)
		require.NoError(t, err)
		require.Len(t, in.Processes, 2, "one was killed")
		time.Sleep(store.ProcessTTL / 2)
		require.Equal(t, 2, rules())
		require.Equal(t, 1, rules(), "all timers were looked at once more")
		_, err = s.RenewProcess(ctx, stopped)
		require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
		require.NoError(t, s.RegisterProcess(ctx, store.Process{ID: stopped, Version: "a"}, v1))
		require.Equal(t, 2, rules())
		require.NoError(t, s.DropProcess(ctx, stopped))
		for range 30 * 60 {
			time.Sleep(time.Minute / 2)
			rules()
		}
		require.NoError(t, s.PurgeExpired(ctx, time.Hour))
		_, err = s.ReplanZones(ctx, old, 10)
		require.Equal(t, timer.CodeNotFound, timer.CodeOf(err))
		require.Equal(t, 1, rules())
	})
}
