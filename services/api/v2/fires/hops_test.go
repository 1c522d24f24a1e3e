package fires_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV2FireTellsItsLife checks the hops of a fire that is claimed, deferred, and delivered.
func TestV2FireTellsItsLife(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	_, id := f.Active(t, "hourly", `{"kind":"cron","specs":["@hourly"]}`)
	due := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	fire := timer.FireID{Timer: id, DueMS: due.UnixMilli()}
	type body struct {
		Path, Session string

		SessionName  string `json:"session_name"`
		DispatchedAt string `json:"dispatched_at"`
		ClaimedAt    string `json:"claimed_at"`
		WaitedFor    string `json:"waited_for"`
		WaitedMS     int64  `json:"waited_ms"`
		WaitingSince string `json:"waiting_since"`
		Timeline     []struct {
			At, Code, Text, Path, Session string

			SessionName string `json:"session_name"`
			WaitedFor   string `json:"waited_for"`
		}
	}
	get := func() (b body) {
		f.Call(t, http.MethodGet, "/api/v2/fires/"+fire.String()+"?app=shop", "", nil).
			Into(t, http.StatusOK, &b)
		return b
	}
	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "one"},
		),
	)
	open, err := f.Store.OpenAmong(t.Context(), []timer.FireID{fire})
	require.NoError(t, err)
	won, err := f.Store.Claim(t.Context(), session, open)
	require.NoError(t, err)
	b := get()
	require.Equal(t, "7", b.Session)
	require.Equal(t, "one", b.SessionName)
	require.Empty(t, b.ClaimedAt, "only the executor knows")

	won[0].State, won[0].WaitedFor = timer.FireDeferred, timer.WaitLimits
	won[0].WaitingSinceMS = due.UnixMilli() + 1
	released, err := f.Store.Release(t.Context(), session, won, nil)
	require.NoError(t, err)
	b = get()
	require.Empty(t, b.Session)
	require.Equal(t, apitest.RFC(due.Add(time.Millisecond)), b.WaitingSince)
	last := b.Timeline[len(b.Timeline)-1]
	require.Equal(t, "waiting", last.Code)
	require.Equal(t, "limits", last.WaitedFor)

	won, err = f.Store.Claim(t.Context(), session, released)
	require.NoError(t, err)
	lost, _, err := f.Store.Record(t.Context(), session, []timer.Outcome{{
		Fire: won[0], Kind: timer.Delivered, FinishedMS: due.UnixMilli() + 500,
		UntilMS: due.UnixMilli(), Count: 1, Attempts: 1, LatenessMS: 400, DurationMS: 90,
		StatusCode: 200,
		Hops: timer.Hops{
			Path: timer.PathDirect, DispatchedMS: due.UnixMilli() + 100,
			ClaimedMS: due.UnixMilli() + 110, WaitedFor: timer.WaitLimits, WaitedMS: 300,
		},
	}}, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	b = get()
	require.Equal(t, "direct", b.Path)
	require.Equal(t, apitest.RFC(due.Add(100*time.Millisecond)), b.DispatchedAt)
	require.Equal(t, apitest.RFC(due.Add(110*time.Millisecond)), b.ClaimedAt)
	require.Equal(t, "limits", b.WaitedFor)
	require.EqualValues(t, 300, b.WaitedMS)
	var codes []string
	for _, h := range b.Timeline {
		codes = append(codes, h.Code)
	}
	require.Equal(t, []string{
		"created", "due", "dispatched", "claimed", "waited", "attempt", "recorded",
	}, codes)
	require.Equal(t, "one", b.Timeline[3].SessionName)
}
