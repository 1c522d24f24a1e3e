package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type warned struct {
	ID       string
	Warnings []struct{ Location, Message string }
}

// TestV2WarnsOfTimersThatNeverFire checks that a timer that never fires, or fires at once, is
// created with a warning.
func TestV2WarnsOfTimersThatNeverFire(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.call(t, http.MethodPut, "/api/v2/calendars/weekend?app=shop", `{"excluded_weekdays":["sat","sun"]}`, nil).
		into(t, 200, &warned{})
	past := "2020-01-01T00:00:00Z"
	soon := rfc(time.Now().Add(time.Hour))
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
		body := timerWith(c.schedule, `{"url":"https://example.com/"}`, `,"status":"active"`)
		var got warned
		f.call(t, http.MethodPost, "/api/v2/schedules/preview", `{"app":"shop","schedule":`+c.schedule+`}`, nil).
			into(t, 200, &got)
		check("preview", got)
		got = warned{}
		name := fmt.Sprintf(`"bill%d"`, i)
		f.call(t, http.MethodPut, "/api/v2/timers", replaceName(body, name), nil).into(t, 201, &got)
		check("put", got)
		id := got.ID
		got = warned{}
		f.call(t, http.MethodPost, "/api/v2/timers", replaceName(body, fmt.Sprintf(`"made%d"`, i)), nil).
			into(t, 201, &got)
		check("create", got)
		got = warned{}
		f.call(t, http.MethodGet, timerPath(id, ""), "", nil).into(t, 200, &got)
		require.Empty(t, got.Warnings, "a look at it warns of nothing")
	}

	var got warned
	inactive := f.create(t, 201, with(`{"kind":"at","at":"`+past+`"}`, ""))
	f.call(t, http.MethodPatch, timerPath(inactive.ID, ""), `{"labels":{"a":"b"}}`, nil).
		into(t, 200, &got)
	require.Contains(t, got.Warnings[0].Message, "as soon as the timer is activated")
	counted, _ := f.active(t, "counted", `{"kind":"interval","every":"1h"}`)
	got = warned{}
	activated := counted.ActiveSince
	require.Eventually(
		t,
		func() bool { return rfc(time.Now()) > activated },
		10*time.Second,
		time.Millisecond,
		"an edit in the same millisecond is of the activation",
	)
	f.call(t, http.MethodPatch, timerPath(counted.ID, ""), `{"schedule":{"kind":"at","at":"`+past+`"}}`, nil).
		into(t, 200, &got)
	require.Contains(t, got.Warnings[0].Message, "not due again")
}

func replaceName(body, name string) string { return strings.Replace(body, `"bill"`, name, 1) }
