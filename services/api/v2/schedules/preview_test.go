package schedules_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestPreviewOverSummerTime is the documented example: workdays at nine in Berlin, across the
// change to summer time.
func TestPreviewOverSummerTime(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	a := f.Call(
		t,
		http.MethodPost,
		"/api/v2/schedules/preview",
		`{"schedule":{"kind":"cron","specs":["0 9 * * 1-5"],
		"time_zone":"Europe/Berlin","gap":"shift","overlap":"first"},"from":"2026-03-27T08:00:00Z","count":2}`,
		nil,
	)
	require.Equal(t, 200, a.Status, a.Body)
	require.JSONEq(t, `{"fires":[{"due":"2026-03-30T07:00:00Z","local":"2026-03-30T09:00:00+02:00"},
		{"due":"2026-03-31T07:00:00Z","local":"2026-03-31T09:00:00+02:00"}],"excluded":[]}`, a.Body)
	got := f.Preview(
		t,
		`{"schedule":{"kind":"cron","specs":["0 9 * * 1-5"],"time_zone":"Europe/Berlin"},"from":"2026-03-27T07:59:59.999Z","count":1}`,
	)
	require.Equal(t, "2026-03-27T08:00:00Z", got.Fires[0].Due, "from is exclusive")
}

func TestPreviewOfEveryKind(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for schedule, want := range map[string][]string{
		`{"kind":"interval","every":"90s"}`:                                               {"00:01:30Z", "00:03:00Z", "00:04:30Z"},
		`{"kind":"interval","every":"1m","anchor":"2020-01-01T00:00:10Z","phase":"5s"}`:   {"00:00:15Z", "00:01:15Z", "00:02:15Z"},
		`{"kind":"cron","specs":["@every 1m"]}`:                                           {"00:01:00Z", "00:02:00Z", "00:03:00Z"},
		`{"kind":"cron","specs":["*/20 * * * *","*/30 * * * *"],"max_fires":2}`:           {"00:20:00Z", "00:30:00Z"},
		`{"kind":"cron","specs":["0 * * * *"],"end_at":"2026-01-01T02:00:00Z"}`:           {"01:00:00Z"},
		`{"kind":"cron","specs":["0 * * * *"],"start_at":"2026-01-01T05:00:00Z"}`:         {"05:00:00Z", "06:00:00Z", "07:00:00Z"},
		`{"kind":"fixed_delay","every":"10m"}`:                                            {"00:10:00Z"},
		`{"kind":"at","at":"2026-01-01T03:04:05Z"}`:                                       {"03:04:05Z"},
		`{"kind":"delay","delay":"1h"}`:                                                   {"01:00:00Z"},
		`{"kind":"interval","every":"1h","end_at":"2026-01-01T01:00:00Z","jitter":"30s"}`: {},
	} {
		got := f.Preview(t, `{"from":"2026-01-01T00:00:00Z","count":3,"schedule":`+schedule+`}`)
		dues := []string{}
		for _, x := range got.Fires {
			dues = append(dues, strings.TrimPrefix(x.Due, "2026-01-01T"))
		}
		require.Equal(t, want, dues, schedule)
	}
	got := f.Preview(t, `{"schedule":{"kind":"cron","specs":["* * * * * *"]},"count":1000}`)
	require.Len(t, got.Fires, 1000)
	due, err := time.Parse(time.RFC3339, got.Fires[0].Due)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), due, 5*time.Second, "from now where nothing else is said")
	require.Len(t, f.Preview(t, `{"schedule":{"kind":"cron","specs":["* * * * * *"]}}`).Fires, 10)
	got = f.Preview(t, `{"schedule":{"kind":"at","at":"2020-01-01T00:00:00Z"}}`)
	require.Len(t, got.Fires, 1, "due at once")
	due, err = time.Parse(time.RFC3339, got.Fires[0].Due)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), due, 5*time.Second)
	require.Empty(
		t,
		f.Preview(
			t,
			`{"schedule":{"kind":"at","at":"2020-01-01T00:00:00Z"},"from":"2026-01-01T00:00:00Z"}`,
		).Fires,
		"from is exclusive",
	)
}

func TestPreviewWithCalendars(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got := f.Preview(
		t,
		`{"schedule":{"kind":"cron","specs":["0 9 * * *"],"calendars":["work"]},"from":"2026-12-23T12:00:00Z","count":2,
		"calendars":[{"name":"work","excluded_dates":["2026-12-25"],"excluded_weekdays":["sat","sun"],"included_dates":["2026-12-27"]}]}`,
	)
	require.Equal(t, "2026-12-24T09:00:00Z", got.Fires[0].Due)
	require.Equal(t, "2026-12-27T09:00:00Z", got.Fires[1].Due, "a make-up Sunday")
	require.Len(t, got.Excluded, 2)
	require.Equal(t, "2026-12-25T09:00:00Z", got.Excluded[0].Due)
	require.Contains(t, got.Excluded[0].Reason, "work")
}

func TestPreviewNamesTheBadField(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for body, want := range map[string]string{
		`{"schedule":{"kind":"cron","specs":["61 * * * *"]}}`:                                                                 "body.schedule.specs[0]",
		`{"schedule":{"kind":"cron","specs":["@daily"],"time_zone":"Mars/Base"}}`:                                             "body.schedule.time_zone",
		`{"schedule":{"kind":"cron","specs":["@daily"],"gap":"jump"}}`:                                                        "body.schedule.gap",
		`{"schedule":{"kind":"cron","specs":["@daily"],"zone":"UTC"}}`:                                                        "body.schedule.zone",
		`{"schedule":{"kind":"interval","every":"soon"}}`:                                                                     "body.schedule.every",
		`{"schedule":{"kind":"interval"}}`:                                                                                    "body.schedule.every",
		`{"schedule":{"kind":"interval","every":"1m","phase":"2m"}}`:                                                          "body.schedule.phase",
		`{"schedule":{"kind":"cron","specs":["@daily"],"start_at":"2026-01-02T00:00:00Z","end_at":"2026-01-01T00:00:00Z"}}`:   "body.schedule.end_at",
		`{"schedule":{"kind":"cron","specs":["@daily"],"max_fires":-1}}`:                                                      "body.schedule.max_fires",
		`{"schedule":{"kind":"cron","specs":["@daily"],"jitter":"25h"}}`:                                                      "body.schedule.jitter",
		`{"schedule":{"kind":"cron","specs":["@daily"],"calendars":["gone"]}}`:                                                "body.schedule.calendars[0]",
		`{"app":"shop","schedule":{"kind":"cron","specs":["@daily"],"calendars":["gone"]}}`:                                   "body.schedule.calendars[0]",
		`{"schedule":{"kind":"cron","specs":["@daily"]},"count":1001}`:                                                        "body.count",
		`{"schedule":{"kind":"cron","specs":["@daily"]},"count":0}`:                                                           "body.count",
		`{"schedule":{"kind":"cron","specs":["@daily"]},"from":"noon"}`:                                                       "body.from",
		`{"schedule":{"kind":"cron","specs":["@daily"]},"timer_id":"1"}`:                                                      "body.app",
		`{"schedule":{"kind":"cron","specs":["@daily"],"calendars":["c"]},"calendars":[{"name":"c","excluded_dates":["x"]}]}`: "body.calendars[0].excluded_dates[0]",
	} {
		p := f.Problem(t, 422, http.MethodPost, "/api/v2/schedules/preview", body)
		require.NotEmpty(t, p.Errors, body)
		require.Equal(t, want, p.Errors[0].Location, body)
	}
	f.Problem(
		t,
		404,
		http.MethodPost,
		"/api/v2/schedules/preview",
		`{"app":"shop","timer_id":"1","schedule":{"kind":"cron","specs":["@daily"]}}`,
	)
}

// TestPreviewOfATimerCountsItsFires checks that max_fires counts the fires that the timer has had,
// and that a preview agrees with the list of upcoming fires.
func TestPreviewOfATimerCountsItsFires(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // of the clock
	began := time.Now()
	f := apitest.Setup(t, func(o *api.Options) {
		o.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	})
	// No fire is due between this and the activation.
	minutely := `"schedule":{"kind":"interval","every":"1m","anchor":"` +
		began.Add(30*time.Second-time.Hour).UTC().Format(time.RFC3339) + `","max_fires":%d}`
	got, _ := f.Active(t, "limited", strings.TrimPrefix(fmt.Sprintf(minutely, 3), `"schedule":`))
	first, err := time.Parse(time.RFC3339, got.NextDue)
	require.NoError(t, err)
	previewed := func(more string, most int) (dues []string) {
		for _, x := range f.Preview(t, `{"app":"shop","timer_id":"`+got.ID+`","count":20,`+
			fmt.Sprintf(minutely, most)+more+`}`).Fires {
			at, err := time.Parse(time.RFC3339, x.Due)
			require.NoError(t, err)
			dues = append(dues, apitest.RFC(at))
		}
		return dues
	}
	listed := func() (dues []string) {
		for _, x := range f.Fires(t, got.ID, "upcoming", 20) {
			dues = append(dues, x.Due)
		}
		return dues
	}
	require.Len(t, listed(), 3)
	require.Equal(t, listed(), previewed("", 3))
	require.Len(t, previewed("", 5), 5, "an edit to 5")
	from := `,"from":"` + apitest.RFC(first.Add(time.Minute)) + `"`
	require.Equal(t, listed()[2:], previewed(from, 3), "two are due before")

	ahead.Store(int64(first.Sub(began) + time.Minute + time.Second)) // two are due
	require.Equal(t, listed(), previewed("", 3))
	require.Len(t, listed(), 1)
	require.Len(t, previewed("", 5), 3, "an edit to 5")
	past := `,"from":"` + apitest.RFC(first.Add(-time.Hour)) + `"`
	require.Len(t, previewed(past, 3), 2, "no more than it has had")

	ahead.Store(int64(first.Sub(began) + 10*time.Minute))
	require.Empty(t, listed())
	require.Empty(t, previewed("", 3))
	require.Empty(t, previewed("", 2))
	require.Len(t, previewed("", 5), 2)
	require.Contains(t, f.Call(t, http.MethodPost, "/api/v2/schedules/preview",
		`{"app":"shop","timer_id":"`+got.ID+`",`+fmt.Sprintf(minutely, 3)+`}`, nil).Body,
		"the timer has had 3 fires, so it is never due again")
}

// TestPreviewOfAFixedDelayCountsFromItsStart checks that the first activation of a timer, which is
// long past, does not count.
func TestPreviewOfAFixedDelayCountsFromItsStart(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const hourly = `{"kind":"fixed_delay","every":"1h","max_fires":5}`
	got, _ := f.Active(t, "hourly", hourly)
	from := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	answer := f.Call(t, http.MethodPost, "/api/v2/schedules/preview", fmt.Sprintf(
		`{"app":"shop","timer_id":%q,"schedule":%s,"from":%q}`, got.ID, hourly, apitest.RFC(from),
	), nil).Body
	require.Contains(t, answer, `"due":"`+from.Add(time.Hour).UTC().Format(time.RFC3339)+`"`)
	require.NotContains(t, answer, "never due")
}

// TestPreviewBeyondManyFires checks that a preview which begins after more fires than it counts does not
// guess how many are left.
func TestPreviewBeyondManyFires(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "limited", `{"kind":"interval","every":"1s","max_fires":150000}`)
	ask := func(from time.Duration) apitest.Answer {
		return f.Call(t, http.MethodPost, "/api/v2/schedules/preview", fmt.Sprintf(
			`{"app":"shop","timer_id":%q,"schedule":{"kind":"interval","every":"1s","max_fires":150000},"from":%q}`,
			got.ID,
			apitest.RFC(time.Now().Add(from)),
		), nil)
	}
	require.Contains(t, ask(20*time.Hour).Body, `"due":`)
	later := ask(43 * time.Hour).Body
	require.NotContains(t, later, `"due":`)
	require.Contains(t, later, "more than 100000 fires are due before the preview begins")
}

// TestPreviewIsBounded checks that previews that are expensive to compute still answer quickly.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var dates []string
	for d := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); len(dates) < 5000; d = d.AddDate(0, 0, 1) {
		dates = append(dates, fmt.Sprintf("%q", d.Format(time.DateOnly)))
	}
	start := time.Now()
	got := f.Preview(
		t,
		`{"schedule":{"kind":"cron","specs":["* * * * * *"],"calendars":["never"]},"from":"2026-01-01T00:00:00Z","count":1000,
		"calendars":[{"name":"never","excluded_dates":[`+strings.Join(
			dates,
			",",
		)+`],"excluded_weekdays":["mon","tue","wed","thu","fri","sat","sun"]}]}`,
	)
	require.Less(t, time.Since(start), 20*time.Second)
	require.Empty(t, got.Fires)
	require.Len(t, got.Excluded, 1000)
	got = f.Preview(
		t,
		`{"schedule":{"kind":"cron","specs":["* * * * *"],"calendars":["a","b"]},"from":"2026-01-01T00:00:00Z","count":1,"calendars":[
		{"name":"a","allowed_times":[{"from":"09:00","to":"10:00"}]},{"name":"b","allowed_times":[{"from":"10:00","to":"11:00"}]}]}`,
	)
	require.Empty(t, got.Fires, "they have no time in common")
	require.Len(t, got.Excluded, 1000)
}

// TestPreviewIsFromAYearOfSchedules checks that nothing is shown which no timer can have.
func TestPreviewIsFromAYearOfSchedules(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, from := range []string{"0001-01-01T00:00:00Z", "2200-01-01T00:00:00Z"} {
		got := f.Call(t, http.MethodPost, "/api/v2/schedules/preview", fmt.Sprintf(
			`{"schedule":{"kind":"delay","delay":"24h"},"from":%q}`, from,
		), nil)
		require.Equal(t, http.StatusUnprocessableEntity, got.Status, got.Body)
		require.Contains(t, got.Body, "expected an instant from 1970 to 2199")
	}
}
