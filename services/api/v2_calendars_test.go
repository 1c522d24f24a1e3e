package api_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
)

type v2Calendar struct {
	App, Name        string
	TimeZone         string           `json:"time_zone"`
	ExcludedDates    []string         `json:"excluded_dates"`
	IncludedDates    []string         `json:"included_dates"`
	ExcludedWeekdays []string         `json:"excluded_weekdays"`
	AllowedTimes     []map[string]any `json:"allowed_times"`
	Version          int
	UpdatedAt        string `json:"updated_at"`
}

func (f *fixture) calendar(t *testing.T, status int, method, path, body string) v2Calendar {
	t.Helper()
	var c v2Calendar
	f.call(t, method, "/api/v2/calendars/"+path, body, nil).into(t, status, &c)
	return c
}

func TestV2CalendarLifecycle(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const work = "work%20days?app=shop"
	body := `{"time_zone":"Europe/Berlin","excluded_dates":["2026-12-25"],"included_dates":["2026-12-19"],"excluded_weekdays":["sat","sun"],
		"allowed_times":[{"from":"09:00","to":"17:30","weekdays":["mon"]},{"from":"09:00","to":"24:00"}]}`
	c := f.calendar(t, 200, http.MethodPut, work, body)
	require.Equal(t, "work days", c.Name)
	require.Equal(t, 1, c.Version)
	got := f.calendar(t, 200, http.MethodGet, work, "")
	c.UpdatedAt = got.UpdatedAt
	require.Equal(t, c, got)
	require.Equal(t, []string{"2026-12-25"}, got.ExcludedDates)
	require.Equal(t, "17:30", got.AllowedTimes[0]["to"])

	require.Equal(
		t,
		2,
		f.calendar(
			t,
			200,
			http.MethodPut,
			work,
			`{"excluded_dates":["2026-12-26"],"if_version":1}`,
		).Version,
	)
	f.problem(t, 409, http.MethodPut, "/api/v2/calendars/"+work, `{"if_version":1}`)
	f.problem(t, 409, http.MethodPut, "/api/v2/calendars/none?app=shop", `{"if_version":1}`)
	require.Equal(
		t,
		[]string{"2026-12-26"},
		f.calendar(t, 200, http.MethodGet, work, "").ExcludedDates,
	)

	timerBody := with(
		`{"kind":"cron","specs":["@daily"],"calendars":["work days"],"excluded":"next_allowed"}`,
		`"status":"active"`,
	)
	tm := f.create(t, 201, timerBody)
	require.Equal(t, "next_allowed", tm.Schedule["excluded"])
	require.NotEmpty(t, tm.NextDue)
	require.Contains(
		t,
		f.problem(t, 409, http.MethodDelete, "/api/v2/calendars/"+work, "").Detail,
		"bill",
	)
	require.Equal(t, 204, f.call(t, http.MethodDelete, timerPath(tm.ID, ""), "", nil).status)
	require.Equal(t, 204, f.call(t, http.MethodDelete, "/api/v2/calendars/"+work, "", nil).status)
	f.problem(t, 404, http.MethodDelete, "/api/v2/calendars/"+work, "")
	f.problem(t, 404, http.MethodGet, "/api/v2/calendars/"+work, "")
	f.problem(t, 404, http.MethodGet, "/api/v2/calendars/work%20days?app=desk", "")
}

func TestV2ListsCalendarsInPages(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, name := range []string{"b", "c", "a"} {
		f.calendar(t, 200, http.MethodPut, name+"?app=shop", `{}`)
	}
	f.calendar(t, 200, http.MethodPut, "d?app=desk", `{}`)
	var names []string
	for cursor := ""; ; {
		var page struct {
			Items      []v2Calendar
			NextCursor string `json:"next_cursor"`
		}
		f.call(t, http.MethodGet, "/api/v2/calendars?app=shop&limit=2"+cursor, "", nil).
			into(t, 200, &page)
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if page.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + page.NextCursor
	}
	require.Equal(t, []string{"a", "b", "c"}, names)
	require.Equal(
		t,
		"query.cursor",
		f.problem(t, 422, http.MethodGet, "/api/v2/calendars?app=shop&cursor=zzz", "").Errors[0].Location,
	)
}

func TestV2CalendarsNameTheBadField(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for body, want := range map[string]string{
		`{"excluded_dates":["2026-12-25","2026-02-30"]}`:    "body.excluded_dates[1]",
		`{"included_dates":["soon"]}`:                       "body.included_dates[0]",
		`{"excluded_weekdays":["mon","day"]}`:               "body.excluded_weekdays[1]",
		`{"allowed_times":[{"from":"9","to":"10:00"}]}`:     "body.allowed_times[0].from",
		`{"allowed_times":[{"from":"10:00","to":"09:00"}]}`: "body.allowed_times[0].to",
		`{"time_zone":"Mars/Base"}`:                         "body.time_zone",
		`{"holidays":[]}`:                                   "body.holidays",
	} {
		require.Equal(
			t,
			want,
			f.problem(t, 422, http.MethodPut, "/api/v2/calendars/c?app=shop", body).Errors[0].Location,
			body,
		)
	}
	require.Equal(
		t,
		"query.app",
		f.problem(t, 422, http.MethodPut, "/api/v2/calendars/c?app=carillon", `{}`).Errors[0].Location,
	)
	require.Equal(
		t,
		"query.app",
		f.problem(t, 422, http.MethodDelete, "/api/v2/calendars/c?app=carillon", "").Errors[0].Location,
	)
	require.Equal(
		t,
		"query.app",
		f.problem(t, 422, http.MethodGet, "/api/v2/calendars/c", "").Errors[0].Location,
	)
	require.Equal(
		t,
		"path.name",
		f.problem(t, 422, http.MethodPut, "/api/v2/calendars/%20c?app=shop", `{}`).Errors[0].Location,
	)
}

const holidays = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\n" +
	"BEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;VALUE=DATE:20261225\r\nDTEND;VALUE=DATE:20261227\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\n" +
	"END:VCALENDAR\r\n"

func TestV2ImportsICalendar(t *testing.T) {
	t.Parallel()
	f := setup(t)
	ics := func(status int, query, body string) (c v2Calendar) {
		a := f.call(
			t,
			http.MethodPost,
			"/api/v2/calendars/h/import?app=shop"+query,
			body,
			map[string]string{"Content-Type": "text/calendar"},
		)
		a.into(t, status, &c)
		return c
	}
	c := ics(200, "", holidays)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.ExcludedDates)
	require.Equal(t, 1, c.Version)
	c = f.calendar(
		t,
		200,
		http.MethodPut,
		"h?app=shop",
		`{"excluded_dates":["2026-01-01","2026-12-25"],"excluded_weekdays":["sun"]}`,
	)
	require.Equal(t, 2, c.Version)
	c = ics(200, "&as=excluded&mode=merge", holidays)
	require.Equal(t, []string{"2026-01-01", "2026-12-25", "2026-12-26"}, c.ExcludedDates)
	require.Equal(t, []string{"sun"}, c.ExcludedWeekdays, "the rest stays")
	c = ics(200, "&mode=replace&if_version=3", holidays)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.ExcludedDates)
	require.Equal(
		t,
		409,
		f.call(
			t,
			http.MethodPost,
			"/api/v2/calendars/h/import?app=shop&if_version=3",
			holidays,
			nil,
		).status,
	)
	c = ics(200, "&as=included", holidays)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.IncludedDates)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.ExcludedDates)

	for body, want := range map[string]string{
		"hello": `is not iCalendar: line 1: expected BEGIN:VCALENDAR, found "hello"`,
		strings.Replace(holidays, "SUMMARY", "RRULE:FREQ=FOO\r\nSUMMARY", 1):           `has an event "Christmas" that cannot be read: line 9: RRULE: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found "FOO"`,
		strings.Replace(holidays, "SUMMARY", "RRULE:FREQ=DAILY;COUNT=0\r\nSUMMARY", 1): `has an event "Christmas" that cannot be read: line 9: RRULE: expected COUNT= and a number from 1 to 999999999, found "COUNT=0"`,
	} {
		p := f.problem(t, 422, http.MethodPost, "/api/v2/calendars/h/import?app=shop", body)
		require.Equal(t, "the file "+want, p.Detail)
		require.Equal(t, "body", p.Errors[0].Location)
		require.Equal(t, want, p.Errors[0].Message)
	}
	require.Equal(
		t,
		"query.as",
		f.problem(t, 422, http.MethodPost, "/api/v2/calendars/h/import?app=shop&as=x", holidays).Errors[0].Location,
	)
	require.Equal(
		t,
		"query.app",
		f.problem(t, 422, http.MethodPost, "/api/v2/calendars/h/import?app=carillon", holidays).Errors[0].Location,
	)
	f.problem(t, 400, http.MethodPost, "/api/v2/calendars/h/import?app=shop", "")
}

// TestV2ImportsByTheCalendarsZone checks that a file is read in the calendar's zone, and that the
// range of endless rules is reported.
func TestV2ImportsByTheCalendarsZone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.calendar(t, 200, http.MethodPut, "h?app=shop", `{"time_zone":"Europe/Berlin"}`)
	var got struct {
		ExcludedDates []string `json:"excluded_dates"`
		Version       int
		Import        map[string]any
	}
	body := strings.NewReplacer(";VALUE=DATE:20261225", ":20261224T230000Z", ";VALUE=DATE:20261227", ":20261225T230000Z").
		Replace(holidays)
	f.call(t, http.MethodPost, "/api/v2/calendars/h/import?app=shop", body, nil).into(t, 200, &got)
	require.Equal(t, []string{"2026-12-25"}, got.ExcludedDates)
	require.Equal(t, map[string]any{"dates": 1.0}, got.Import)
	require.Equal(t, 2, got.Version)
	body = strings.NewReplacer("DTEND;VALUE=DATE:20261227", "RRULE:FREQ=WEEKLY;BYDAY=SA,SU").
		Replace(holidays)
	f.call(t, http.MethodPost, "/api/v2/calendars/h/import?app=shop&mode=replace", body, nil).
		into(t, 200, &got)
	require.Len(t, got.ExcludedDates, int(got.Import["dates"].(float64)))
	require.Equal(t, "-12-31", got.Import["endless_until"].(string)[4:])
	require.LessOrEqual(t, got.ExcludedDates[len(got.ExcludedDates)-1], got.Import["endless_until"])
}

// TestV2ImportsAtOnce checks that concurrent imports lose no date, also if each would create the
// calendar.
func TestV2ImportsAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var wg sync.WaitGroup
	for _, day := range []string{"01", "02", "03", "04", "05", "06"} {
		wg.Go(func() {
			body := strings.NewReplacer("20261225", "202603"+day, "DTEND;VALUE=DATE:20261227\r\n", "").
				Replace(holidays)
			if a := f.call(
				t,
				http.MethodPost,
				"/api/v2/calendars/h/import?app=shop",
				body,
				nil,
			); a.status != 200 {
				t.Errorf("answered %d: %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	require.Len(t, f.calendar(t, 200, http.MethodGet, "h?app=shop", "").ExcludedDates, 6)
}

// TestV2ControlsAskForTheAppsKey checks that an app's key gives no access to another app.
func TestV2ControlsAskForTheAppsKey(t *testing.T) {
	t.Parallel()
	f := setup(
		t,
		func(o *api.Options) { o.Auth = api.Auth{Keys: api.Keys{sha256.Sum256([]byte("k1")): "shop"}} },
	)
	key := map[string]string{"Authorization": "Bearer k1"}
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "/api/v2/timers", strings.Replace(v2Body, "shop", "desk", 1)},
		{http.MethodDelete, "/api/v2/timers?app=desk&name=x", ""},
		{http.MethodPost, "/api/v2/timers/1/pause?app=desk", ""},
		{http.MethodPost, "/api/v2/timers/1/resume?app=desk", ""},
		{http.MethodPost, "/api/v2/timers/1/run?app=desk", ""},
		{http.MethodPost, "/api/v2/timers/1/reschedule?app=desk", `{"delay":"1h"}`},
		{http.MethodPost, "/api/v2/timers/1/backfills?app=desk", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`},
		{http.MethodGet, "/api/v2/backfills/1?app=desk", ""},
		{http.MethodDelete, "/api/v2/backfills/1?app=desk", ""},
		{http.MethodGet, "/api/v2/apps/desk", ""},
		{http.MethodPost, "/api/v2/apps/desk/freeze", ""},
		{http.MethodPost, "/api/v2/apps/desk/unfreeze", ""},
		{http.MethodGet, "/api/v2/calendars?app=desk", ""},
		{http.MethodGet, "/api/v2/calendars/c?app=desk", ""},
		{http.MethodPut, "/api/v2/calendars/c?app=desk", `{}`},
		{http.MethodDelete, "/api/v2/calendars/c?app=desk", ""},
		{http.MethodPost, "/api/v2/calendars/c/import?app=desk", holidays},
		{http.MethodPost, "/api/v2/schedules/preview", `{"app":"desk","schedule":{"kind":"delay","delay":"1s"}}`},
	} {
		require.Equal(t, 404, f.call(t, c.method, c.path, c.body, key).status, c.path)
		require.Equal(t, 401, f.call(t, c.method, c.path, c.body, nil).status, c.path)
	}
}
