package sqlstore_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestMySQLClearAppSparesTheNextApp holds up a call of ClearApp, as that of a frozen process, until the
// app is deleted by another and its name is used again.
func TestMySQLClearAppSparesTheNextApp(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := sqlstore.MySQLOptions{DSN: testenv.MySQL(t)}
	frozen, other := openMySQL(t, o), openMySQL(t, o)
	put := func() {
		t.Helper()
		_, err := other.PutCalendar(ctx, "a", timer.Calendar{Name: "c"}, 0)
		require.NoError(t, err)
		require.NoError(t, other.AddAPIKey(ctx, store.APIKey{
			ID: "k", App: "a", Scope: "read", Hash: []byte("h"),
		}))
	}
	put()
	_, err := other.StartJob(ctx, store.Job{ID: 1, App: "a", Action: store.JobDeleteApp})
	require.NoError(t, err)
	var once sync.Once
	frozen.OnStatement(func(text string) {
		if !strings.HasPrefix(text, "DELETE FROM calendars") {
			return
		}
		once.Do(func() {
			_, err := other.ClearApp(ctx, "a")
			require.NoError(t, err)
			j, ok, err := other.LeaseJob(ctx, time.Hour)
			require.NoError(t, err)
			require.True(t, ok)
			j.Status = store.JobDone
			_, err = other.AdvanceJob(ctx, j)
			require.NoError(t, err)
			put()
		})
	})
	_, err = frozen.ClearApp(ctx, "a")
	require.NoError(t, err)
	calendars, err := other.Calendars(ctx, "a", "", 10)
	require.NoError(t, err)
	require.Len(t, calendars, 1)
	keys, err := other.APIKeys(ctx, "a")
	require.NoError(t, err)
	require.Len(t, keys, 1)
}
