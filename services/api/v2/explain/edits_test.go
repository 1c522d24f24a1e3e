package explain_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestExplainsOpenFiresThatAnEditLeavesBehind checks the instants of an edited timer with more open
// fires than an edit decides about itself, before a migrator has decided about the others.
func TestExplainsOpenFiresThatAnEditLeavesBehind(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, id := f.Active(t, "e2", `{"kind":"interval","every":"30s","anchor":"2026-01-01T00:00:00Z"}`)
	f.Do(t, http.StatusOK, http.MethodPatch, apitest.TimerPath(got.ID, ""),
		`{"schedule":{"kind":"interval","every":"1m","anchor":"2026-01-01T00:00:00Z"}}`)
	minute := time.Now().UTC().Truncate(time.Minute).Add(20 * time.Minute)
	half := minute.Add(30 * time.Second)
	open, err := f.Store.OpenAmong(t.Context(), []timer.FireID{
		{Timer: id, DueMS: minute.UnixMilli()}, {Timer: id, DueMS: half.UnixMilli()},
	})
	require.NoError(t, err)
	require.Len(t, open, 2, "migrators have not decided")
	require.EqualValues(t, 1, open[1].Version)

	require.Equal(t, string(explain.Planned), ask(t, f, got.ID, at(minute)).Items[0].Code)
	removed := ask(t, f, got.ID, at(half)).Items[0]
	require.Equal(t, string(explain.Edited), removed.Code, removed.Text)
	require.False(t, removed.Due)
	require.Contains(t, removed.Text, "version 2, in force since")
	require.Contains(t, removed.Text, "will be skipped")
	var shown struct {
		Timeline []struct{ Code, Text string }
	}
	f.Call(t, http.MethodGet, "/api/v2/fires/"+open[1].FireID.String()+"?app=shop", "", nil).
		Into(t, http.StatusOK, &shown)
	last := shown.Timeline[len(shown.Timeline)-1]
	require.Equal(t, removed.Text, last.Text)
}
