package timers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type warned struct {
	ID       string
	Warnings []struct{ Location, Message string }
}

// TestV2WarnsOfTimersThatNeverFire checks that a timer that never fires, or fires at once, is
// created with a warning.
func TestV2WarnsOfTimersThatNeverFire(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Call(t, http.MethodPut, "/api/v2/calendars/weekend?app=shop", `{"excluded_weekdays":["sat","sun"]}`, nil).
		Into(t, 200, &warned{})
	past := "2020-01-01T00:00:00Z"
	soon := apitest.RFC(time.Now().Add(time.Hour))
	for i, c := range []struct{ schedule, field, message string }{
		{`{"kind":"cron","specs":["@daily"]}`, "", ""},
		{`{"kind":"cron","specs":["@daily"],"end_at":"` + past + `"}`, "end_at", "is past"},
		{`{"kind":"cron","specs":["0 0 1 1 *"],"end_at":"` + soon + `"}`, "end_at", "not before its end"},
		{`{"kind":"interval","every":"2h","end_at":"` + past + `"}`, "end_at", "is past"},
		{`{"kind":"cron","specs":["0 0 0 1 1 * 2020"]}`, "specs", "match nothing"},
		{`{"kind":"cron","specs":["@daily","0 0 0 1 1 * 2020"]}`, "specs[1]", "match nothing"},
		{`{"kind":"cron","specs":["0 9 * * sat"],"calendars":["weekend"]}`, "calendars", "exclude every instant"},
		{`{"kind":"at","at":"` + past + `"}`, "at", "has passed: it is due at once"},
		{`{"kind":"at","at":"` + soon + `"}`, "", ""},
		{`{"kind":"delay","delay":"1h"}`, "", ""},
		{`{"kind":"fixed_delay","every":"1h"}`, "", ""},
		{`{"kind":"fixed_delay","every":"1h","end_at":"` + past + `"}`, "end_at", "is past"},
	} {
		check := func(what string, got warned) {
			if c.field == "" {
				require.Empty(t, got.Warnings, "%s %s", what, c.schedule)
				return
			}
			require.Len(t, got.Warnings, 1, "%s %s", what, c.schedule)
			require.Equal(t, "body.schedule."+c.field, got.Warnings[0].Location, c.schedule)
			require.Contains(t, got.Warnings[0].Message, c.message, c.schedule)
		}
		body := apitest.TimerWith(
			c.schedule,
			`{"url":"https://example.com/"}`,
			`,"status":"active"`,
		)
		var got warned
		f.Call(t, http.MethodPost, "/api/v2/schedules/preview", `{"app":"shop","schedule":`+c.schedule+`}`, nil).
			Into(t, 200, &got)
		check("preview", got)
		got = warned{}
		name := fmt.Sprintf(`"bill%d"`, i)
		f.Call(t, http.MethodPut, "/api/v2/timers", replaceName(body, name), nil).Into(t, 201, &got)
		check("put", got)
		id := got.ID
		got = warned{}
		f.Call(t, http.MethodPost, "/api/v2/timers", replaceName(body, fmt.Sprintf(`"made%d"`, i)), nil).
			Into(t, 201, &got)
		check("create", got)
		got = warned{}
		f.Call(t, http.MethodGet, apitest.TimerPath(id, ""), "", nil).Into(t, 200, &got)
		require.Empty(t, got.Warnings, "a look at it warns of nothing")
	}

	var got warned
	inactive := f.Create(t, 201, apitest.With(`{"kind":"at","at":"`+past+`"}`, ""))
	f.Call(t, http.MethodPatch, apitest.TimerPath(inactive.ID, ""), `{"labels":{"a":"b"}}`, nil).
		Into(t, 200, &got)
	require.Contains(t, got.Warnings[0].Message, "as soon as the timer is activated")
	counted, _ := f.Active(t, "counted", `{"kind":"interval","every":"1h"}`)
	got = warned{}
	activated := counted.ActiveSince
	require.Eventually(
		t,
		func() bool { return apitest.RFC(time.Now()) > activated },
		10*time.Second,
		time.Millisecond,
		"an edit in the same millisecond is of the activation",
	)
	f.Call(t, http.MethodPatch, apitest.TimerPath(counted.ID, ""), `{"schedule":{"kind":"at","at":"`+past+`"}}`, nil).
		Into(t, 200, &got)
	require.Contains(t, got.Warnings[0].Message, "due at once")
	edited := time.Now()
	require.Eventually(
		t,
		func() bool { return time.Since(edited) > 5*time.Millisecond },
		10*time.Second,
		time.Millisecond,
		"it comes due a millisecond after the edit",
	)
	planned := len(f.Dispatched.All())
	got = warned{}
	f.Call(t, http.MethodPatch, apitest.TimerPath(counted.ID, ""), `{"misfire":{"policy":"skip"}}`, nil).
		Into(t, 200, &got)
	require.Contains(t, got.Warnings[0].Message, "not due again")
	require.Len(t, f.Dispatched.All(), planned)
}

func replaceName(body, name string) string { return strings.Replace(body, `"bill"`, name, 1) }
