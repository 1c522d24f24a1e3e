package timers_test

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestUnreadableTimers checks that the API says of a timer that its definition cannot be read, refuses
// what needs it, and does the rest.
func TestUnreadableTimers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	f := apitest.Setup(t, func(o *api.Options) { o.Store = st })
	tm := f.Create(t, http.StatusCreated, named("tick", 10))

	db, err := sql.Open("sqlite", filepath.Join(dir, sqlstore.SQLiteFile))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE timer_versions SET definition=?",
		[]byte(`{"schedule":{"kind":{"of":"a newer release"}}}`))
	require.NoError(t, err)
	require.NoError(t, db.Close())

	path, app := "/api/v2/timers/"+tm.ID, "?app=shop"
	type shown struct{ ID, Name, Status, Unreadable string }
	var one, replaced shown
	f.Call(t, http.MethodGet, path+app, "", nil).Into(t, http.StatusOK, &one)
	require.Equal(t, "tick", one.Name)
	require.NotEmpty(t, one.Unreadable)
	var list struct{ Items []shown }
	f.Call(t, http.MethodGet, "/api/v2/timers"+app, "", nil).Into(t, http.StatusOK, &list)
	require.Equal(t, []shown{one}, list.Items)

	past := `{"from":"2026-01-01T00:00:00Z","to":"2026-01-01T01:00:00Z"}`
	const refused = "replace it as a whole"
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{http.MethodPatch, path + app, `{"priority":"high"}`, http.StatusConflict, refused},
		{http.MethodPost, path + "/backfills" + app, past, http.StatusConflict, refused},
		{http.MethodPost, path + "/reschedule" + app, `{"delay":"1h"}`, http.StatusConflict, refused},
		{http.MethodGet, path + "/fires" + app, "", http.StatusOK, ""},
		{
			http.MethodGet, path + "/explain" + app + "&at=2026-01-01T00:00:00Z", "",
			http.StatusOK, "cannot be read: reading version 1",
		},
		{http.MethodPost, path + "/run" + app, `{}`, http.StatusAccepted, `"status":"open"`},
		{http.MethodPatch, path + app, `{"status":"inactive"}`, http.StatusOK, "unreadable"},
		{http.MethodPatch, path + app, `{"status":"active"}`, http.StatusConflict, refused},
		{http.MethodPut, "/api/v2/timers", named("tick", 20), http.StatusOK, `"version":2`},
	} {
		a := f.Call(t, c.method, c.path, c.body, nil)
		require.Equal(t, c.status, a.Status, "%s %s: %s", c.method, c.path, a.Body)
		require.Contains(t, a.Body, c.says, "%s %s", c.method, c.path)
	}
	f.Call(t, http.MethodGet, path+app, "", nil).Into(t, http.StatusOK, &replaced)
	require.Empty(t, replaced.Unreadable)
}
