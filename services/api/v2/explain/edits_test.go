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
	got, id := f.Active(
		t,
		"e2",
		`{"kind":"interval","every":"30s","anchor":"2026-01-01T00:00:00Z"}`,
	)
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

// TestExplainsTheEndByMaxFires checks instants after the last fire that max_fires allows, and
// moments between them.
func TestExplainsTheEndByMaxFires(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for name, every := range map[string]time.Duration{
		"made": time.Minute, "not made yet": time.Hour,
	} {
		got, _ := f.Active(t, name, `{"kind":"interval","every":"`+every.String()+
			`","anchor":"2026-01-01T00:00:00Z","max_fires":3}`)
		first, err := time.Parse(time.RFC3339, got.NextDue)
		require.NoError(t, err)
		last := first.Add(2 * every)
		one := ask(t, f, got.ID, at(last.Add(every))).Items[0]
		require.Equal(t, string(explain.MaxFires), one.Code, one.Text)
		between := ask(t, f, got.ID, at(last.Add(time.Second))).Items[0]
		require.Equal(t, string(explain.NotInSchedule), between.Code)
		require.Equal(t, apitest.RFC(last), between.Before, between.Text)
		require.Empty(t, between.After, between.Text)
		between = ask(t, f, got.ID, at(last.Add(10*every+time.Second))).Items[0]
		require.Equal(t, apitest.RFC(last), between.Before, between.Text)
		require.Empty(t, between.After, between.Text)
		between = ask(t, f, got.ID, at(last.Add(-time.Second))).Items[0]
		require.Equal(t, apitest.RFC(last), between.After, between.Text)
	}
}

// TestExplainsAnInstantThatHadPassed checks the instant of a one-shot that was due at its activation
// instead.
func TestExplainsAnInstantThatHadPassed(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "past", `{"kind":"at","at":"2020-01-01T00:00:00Z"}`)
	past := ask(t, f, got.ID, "&at=2020-01-01T00:00:00Z").Items[0]
	require.Equal(t, string(explain.NotActivated), past.Code, past.Text)
	require.Contains(t, past.Text, "The timer was activated first at ")
	require.Contains(t, past.Text, "after this instant, so it was due at "+past.MovedTo[:19])
	epoch := ask(t, f, got.ID, "&at=1970-01-01T00:00:00Z").Items[0]
	require.Equal(t, "1970-01-01T00:00:00.000Z", epoch.At)
}

// TestExplainsAnInstantThatAnEditBroughtTooLate checks the instant of a one-shot that had passed when
// an edit brought it.
func TestExplainsAnInstantThatAnEditBroughtTooLate(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "late", `{"kind":"at","at":"2100-01-01T00:00:00Z"}`)
	f.Do(t, http.StatusOK, http.MethodPatch, apitest.TimerPath(got.ID, ""),
		`{"schedule":{"kind":"at","at":"2020-01-01T00:00:00.0005Z"}}`)
	past := ask(t, f, got.ID, "&at=2020-01-01T00:00:00.001Z").Items[0]
	require.Equal(t, string(explain.Edited), past.Code, past.Text)
	require.Contains(
		t,
		past.Text,
		"Version 2 has this instant, which had passed when it came into force.",
	)
	before := ask(t, f, got.ID, "&at=2020-01-01T00:00:00.002Z").Items[0]
	require.Equal(t, string(explain.NotInSchedule), before.Code, before.Text)
	first := ask(t, f, got.ID, "&at=2100-01-01T00:00:00Z").Items[0]
	require.Equal(t, string(explain.Edited), first.Code, first.Text)
	require.Contains(t, first.Text, "Version 1 has this instant")
}
