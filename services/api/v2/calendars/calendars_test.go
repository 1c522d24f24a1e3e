package calendars_test

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestV2PutAnswersWhatIsStored compares the answer with what is read afterwards.
func TestV2PutAnswersWhatIsStored(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, body := range []string{`{"time_zone":"UTC"}`, `{"excluded_weekdays":["sun"]}`} {
		const path = "/api/v2/calendars/days?app=shop"
		put := f.Call(t, http.MethodPut, path, body, nil)
		require.Equal(t, http.StatusOK, put.Status)
		require.Equal(t, f.Call(t, http.MethodGet, path, "", nil).Body, put.Body)
	}
}

// TestV2SameCalendarChangesNothing writes and imports what a calendar has already.
func TestV2SameCalendarChangesNothing(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const path, body = "/api/v2/calendars/days?app=shop", `{"excluded_dates":["2030-01-01"]}`
	first := f.Call(t, http.MethodPut, path, body, nil)
	require.Equal(t, http.StatusOK, first.Status, first.Body)
	tm := f.Create(t, 201, apitest.With(
		`{"kind":"cron","specs":["@daily"],"calendars":["days"]}`, `"status":"active"`,
	))
	again := f.Call(t, http.MethodPut, path, body, nil)
	require.Equal(t, first.Body, again.Body)
	const event = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:a\r\n" +
		"DTSTART;VALUE=DATE:20300101\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	ics := map[string]string{"Content-Type": "text/calendar"}
	for _, more := range []string{"", "&mode=replace", "&if_version=1"} {
		in := "/api/v2/calendars/days/import?app=shop" + more
		var got apitest.V2Calendar
		f.Call(t, http.MethodPost, in, event, ics).Into(t, http.StatusOK, &got)
		require.Equal(t, 1, got.Version, more)
	}
	require.Equal(t, first.Body, f.Call(t, http.MethodGet, path, "", nil).Body)
	stored, err := f.Store.TimerByName(t.Context(), "shop", "bill")
	require.NoError(t, err)
	require.Equal(t, tm.ID, stored.ID.String())
	require.False(t, stored.Replan)
}

func TestV2CalendarLifecycle(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const work = "work%20days?app=shop"
	body := `{"time_zone":"Europe/Berlin","excluded_dates":["2026-12-25"],"included_dates":["2026-12-19"],"excluded_weekdays":["sat","sun"],
		"allowed_times":[{"from":"09:00","to":"17:30","weekdays":["mon"]},{"from":"09:00","to":"24:00"}]}`
	c := f.Calendar(t, 200, http.MethodPut, work, body)
	require.Equal(t, "work days", c.Name)
	require.Equal(t, 1, c.Version)
	got := f.Calendar(t, 200, http.MethodGet, work, "")
	c.UpdatedAt = got.UpdatedAt
	require.Equal(t, c, got)
	require.Equal(t, []string{"2026-12-25"}, got.ExcludedDates)
	require.Equal(t, "17:30", got.AllowedTimes[0]["to"])

	require.Equal(
		t,
		2,
		f.Calendar(
			t,
			200,
			http.MethodPut,
			work,
			`{"excluded_dates":["2026-12-26"],"if_version":1}`,
		).Version,
	)
	old := f.Problem(t, 409, http.MethodPut, "/api/v2/calendars/"+work, `{"if_version":1}`)
	require.Equal(t, "body.if_version", old.Errors[0].Location)
	f.Problem(t, 409, http.MethodPut, "/api/v2/calendars/none?app=shop", `{"if_version":1}`)
	absent := map[string]string{"If-None-Match": "*"}
	for path, status := range map[string]int{
		work:                            412,
		"new?app=shop":                  200,
		work + "&dry_run=true":          412,
		"another?app=shop&dry_run=true": 200,
		"third?app=shop&dry_run=false":  200,
	} {
		a := f.Call(t, http.MethodPut, "/api/v2/calendars/"+path, `{}`, absent)
		require.Equal(t, status, a.Status, path)
	}
	var both apitest.V2Problem
	f.Call(t, http.MethodPut, "/api/v2/calendars/fourth?app=shop", `{"if_version":1}`, absent).
		Into(t, 422, &both)
	require.Equal(t, "body.if_version", both.Errors[0].Location)
	f.Problem(t, 404, http.MethodGet, "/api/v2/calendars/fourth?app=shop", "")
	require.Equal(
		t,
		[]string{"2026-12-26"},
		f.Calendar(t, 200, http.MethodGet, work, "").ExcludedDates,
	)

	timerBody := apitest.With(
		`{"kind":"cron","specs":["@daily"],"calendars":["work days"],"excluded":"next_allowed"}`,
		`"status":"active"`,
	)
	tm := f.Create(t, 201, timerBody)
	require.Equal(t, "next_allowed", tm.Schedule["excluded"])
	require.NotEmpty(t, tm.NextDue)
	used := f.Problem(t, 409, http.MethodDelete, "/api/v2/calendars/"+work, "")
	require.Contains(t, used.Detail, "bill")
	require.Equal(t, "path.name", used.Errors[0].Location)
	require.Equal(
		t,
		204,
		f.Call(t, http.MethodDelete, apitest.TimerPath(tm.ID, ""), "", nil).Status,
	)
	require.Equal(t, 204, f.Call(t, http.MethodDelete, "/api/v2/calendars/"+work, "", nil).Status)
	f.Problem(t, 404, http.MethodDelete, "/api/v2/calendars/"+work, "")
	f.Problem(t, 404, http.MethodGet, "/api/v2/calendars/"+work, "")
	f.Problem(t, 404, http.MethodGet, "/api/v2/calendars/work%20days?app=desk", "")
}

// TestV2ShowsWeekdaysInLowerCase checks that clients can compare the names of weekdays, whatever case
// a caller writes now or an older release stored.
func TestV2ShowsWeekdaysInLowerCase(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	const body = `{"excluded_weekdays":["SAT","Sun"],
		"allowed_times":[{"from":"09:00","to":"17:00","weekdays":["MON"]}]}`
	f.Calendar(t, 200, http.MethodPut, "new?app=shop", body)
	kept, err := f.Store.Calendar(t.Context(), "shop", "new")
	require.NoError(t, err)
	require.Equal(t, []string{"sat", "sun"}, kept.ExcludedWeekdays)
	require.Equal(t, []string{"mon"}, kept.AllowedTimes[0].Weekdays)

	old := kept.Calendar
	old.Name, old.ExcludedWeekdays = "old", []string{"SAT", "Sun"}
	old.AllowedTimes[0].Weekdays = []string{"MON"}
	_, err = f.Store.PutCalendar(t.Context(), "shop", old, 0)
	require.NoError(t, err)
	for _, name := range []string{"new", "old"} {
		got := f.Calendar(t, 200, http.MethodGet, name+"?app=shop", "")
		require.Equal(t, []string{"sat", "sun"}, got.ExcludedWeekdays, name)
		require.Equal(t, []any{"mon"}, got.AllowedTimes[0]["weekdays"], name)
	}
}

func TestV2ListsCalendarsInPages(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	for _, name := range []string{"b", "c", "a"} {
		f.Calendar(t, 200, http.MethodPut, name+"?app=shop", `{}`)
	}
	f.Calendar(t, 200, http.MethodPut, "d?app=desk", `{}`)
	var names []string
	for cursor := ""; ; {
		var page struct {
			Items      []apitest.V2Calendar
			NextCursor string `json:"next_cursor"`
		}
		f.Call(t, http.MethodGet, "/api/v2/calendars?app=shop&limit=2"+cursor, "", nil).
			Into(t, 200, &page)
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
		f.Problem(t, 422, http.MethodGet, "/api/v2/calendars?app=shop&cursor=zzz", "").Errors[0].Location,
	)
}

func TestV2TimersOfACalendar(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Calendar(t, 200, http.MethodPut, "work%20days?app=shop", `{}`)
	want := make(map[string]string)
	for i, name := range []string{"a", "b", "c", "d"} {
		body := apitest.With(
			`{"kind":"cron","specs":["@daily"],"calendars":["work days"]}`,
			[]string{`"status":"active"`, `"status":"inactive"`}[i%2],
		)
		made := f.Create(t, 201, strings.Replace(body, "bill", name, 1))
		want[made.ID] = name + " " + made.Status
	}
	f.Create(t, 201, apitest.V2Body)
	list := func(limit string) map[string]string {
		found := make(map[string]string)
		for cursor := ""; ; {
			var page struct {
				Items      []struct{ ID, Name, Status string }
				NextCursor string `json:"next_cursor"`
			}
			path := "/api/v2/calendars/work%20days/timers?app=shop&limit=" + limit + cursor
			f.Call(t, http.MethodGet, path, "", nil).Into(t, 200, &page)
			for _, i := range page.Items {
				found[i.ID] = i.Name + " " + i.Status
			}
			if cursor = "&cursor=" + page.NextCursor; page.NextCursor == "" {
				return found
			}
		}
	}
	for _, limit := range []string{"1", "3", "100"} {
		require.Equal(t, want, list(limit))
	}
	for id := range want {
		require.Equal(
			t,
			204,
			f.Call(t, http.MethodDelete, apitest.TimerPath(id, ""), "", nil).Status,
		)
		delete(want, id)
		break
	}
	require.Equal(t, want, list("100"))
	f.Problem(t, 404, http.MethodGet, "/api/v2/calendars/none/timers?app=shop", "")
	require.Equal(
		t,
		"query.cursor",
		f.Problem(t, 422, http.MethodGet,
			"/api/v2/calendars/work%20days/timers?app=shop&cursor=zzz", "").Errors[0].Location,
	)
}

func TestV2CalendarsNameTheBadField(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
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
			f.Problem(t, 422, http.MethodPut, "/api/v2/calendars/c?app=shop", body).Errors[0].Location,
			body,
		)
	}
	require.Equal(
		t,
		"query.app",
		f.Problem(t, 422, http.MethodPut, "/api/v2/calendars/c?app=carillon", `{}`).Errors[0].Location,
	)
	require.Equal(
		t,
		"query.app",
		f.Problem(t, 422, http.MethodDelete, "/api/v2/calendars/c?app=carillon", "").Errors[0].Location,
	)
	require.Equal(
		t,
		"query.app",
		f.Problem(t, 422, http.MethodGet, "/api/v2/calendars/c", "").Errors[0].Location,
	)
	require.Equal(
		t,
		"path.name",
		f.Problem(t, 422, http.MethodPut, "/api/v2/calendars/%20c?app=shop", `{}`).Errors[0].Location,
	)
	for _, c := range [][3]string{
		{http.MethodPut, "%2E", "{}"},
		{http.MethodPut, "%2E%2E", "{}"},
		{http.MethodPost, "%2E%2E/import", "BEGIN:VCALENDAR\nEND:VCALENDAR\n"},
	} {
		kind := "application/json"
		if c[0] == http.MethodPost {
			kind = "text/calendar"
		}
		a := f.Call(t, c[0], "/api/v2/calendars/"+c[1]+"?app=shop", c[2],
			map[string]string{"Content-Type": kind})
		require.Equal(t, 422, a.Status, a.Body)
		require.Contains(t, a.Body, `"location":"path.name"`)
		require.Contains(t, a.Body, "choose another name")
	}
}

func TestV2ImportsICalendar(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	ics := func(status int, query, body string) (c apitest.V2Calendar) {
		a := f.Call(
			t,
			http.MethodPost,
			"/api/v2/calendars/h/import?app=shop"+query,
			body,
			map[string]string{"Content-Type": "text/calendar"},
		)
		a.Into(t, status, &c)
		return c
	}
	c := ics(200, "", apitest.Holidays)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.ExcludedDates)
	require.Equal(t, 1, c.Version)
	c = f.Calendar(
		t,
		200,
		http.MethodPut,
		"h?app=shop",
		`{"excluded_dates":["2026-01-01","2026-12-25"],"excluded_weekdays":["sun"]}`,
	)
	require.Equal(t, 2, c.Version)
	c = ics(200, "&as=excluded&mode=merge", apitest.Holidays)
	require.Equal(t, []string{"2026-01-01", "2026-12-25", "2026-12-26"}, c.ExcludedDates)
	require.Equal(t, []string{"sun"}, c.ExcludedWeekdays, "the rest stays")
	c = ics(200, "&mode=replace&if_version=3", apitest.Holidays)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.ExcludedDates)
	require.Equal(
		t,
		409,
		f.Call(
			t,
			http.MethodPost,
			"/api/v2/calendars/h/import?app=shop&if_version=3",
			apitest.Holidays,
			nil,
		).Status,
	)
	c = ics(200, "&as=included", apitest.Holidays)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.IncludedDates)
	require.Equal(t, []string{"2026-12-25", "2026-12-26"}, c.ExcludedDates)

	for body, want := range map[string]string{
		"hello": `is not iCalendar: line 1: expected BEGIN:VCALENDAR, found "hello"`,
		strings.Replace(apitest.Holidays, "SUMMARY", "RRULE:FREQ=FOO\r\nSUMMARY", 1):           `has an event "Christmas" that cannot be read: line 9: RRULE: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found "FOO"`,
		strings.Replace(apitest.Holidays, "SUMMARY", "RRULE:FREQ=DAILY;COUNT=0\r\nSUMMARY", 1): `has an event "Christmas" that cannot be read: line 9: RRULE: expected COUNT= and a number from 1 to 999999999, found "COUNT=0"`,
	} {
		p := f.Problem(t, 422, http.MethodPost, "/api/v2/calendars/h/import?app=shop", body)
		require.Equal(t, "the file "+want, p.Detail)
		require.Equal(t, "body", p.Errors[0].Location)
		require.Equal(t, want, p.Errors[0].Message)
	}
	require.Equal(
		t,
		"query.as",
		f.Problem(t, 422, http.MethodPost, "/api/v2/calendars/h/import?app=shop&as=x", apitest.Holidays).Errors[0].Location,
	)
	require.Equal(
		t,
		"query.app",
		f.Problem(t, 422, http.MethodPost, "/api/v2/calendars/h/import?app=carillon", apitest.Holidays).Errors[0].Location,
	)
	f.Problem(t, 400, http.MethodPost, "/api/v2/calendars/h/import?app=shop", "")
}

// TestV2ImportsByTheCalendarsZone checks that a file is read in the calendar's zone, and that the
// range of endless rules is reported.
func TestV2ImportsByTheCalendarsZone(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Calendar(t, 200, http.MethodPut, "h?app=shop", `{"time_zone":"Europe/Berlin"}`)
	var got struct {
		ExcludedDates []string `json:"excluded_dates"`
		Version       int
		Import        map[string]any
	}
	body := strings.NewReplacer(";VALUE=DATE:20261225", ":20261224T230000Z", ";VALUE=DATE:20261227", ":20261225T230000Z").
		Replace(apitest.Holidays)
	f.Call(t, http.MethodPost, "/api/v2/calendars/h/import?app=shop", body, nil).Into(t, 200, &got)
	require.Equal(t, []string{"2026-12-25"}, got.ExcludedDates)
	require.Equal(t, map[string]any{"dates": 1.0, "timed_events": 1.0}, got.Import)
	require.Equal(t, 2, got.Version)
	body = strings.NewReplacer("DTEND;VALUE=DATE:20261227", "RRULE:FREQ=WEEKLY;BYDAY=SA,SU").
		Replace(apitest.Holidays)
	f.Call(t, http.MethodPost, "/api/v2/calendars/h/import?app=shop&mode=replace", body, nil).
		Into(t, 200, &got)
	require.Len(t, got.ExcludedDates, int(got.Import["dates"].(float64)))
	require.Equal(t, "-12-31", got.Import["endless_until"].(string)[4:])
	require.LessOrEqual(t, got.ExcludedDates[len(got.ExcludedDates)-1], got.Import["endless_until"])
}

// TestV2ImportsAtOnce checks that concurrent imports lose no date, also if each would create the
// calendar.
func TestV2ImportsAtOnce(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	var wg sync.WaitGroup
	for _, day := range []string{"01", "02", "03", "04", "05", "06"} {
		wg.Go(func() {
			body := strings.NewReplacer("20261225", "202603"+day, "DTEND;VALUE=DATE:20261227\r\n", "").
				Replace(apitest.Holidays)
			if a := f.Call(
				t,
				http.MethodPost,
				"/api/v2/calendars/h/import?app=shop",
				body,
				nil,
			); a.Status != 200 {
				t.Errorf("answered %d: %s", a.Status, a.Body)
			}
		})
	}
	wg.Wait()
	require.Len(t, f.Calendar(t, 200, http.MethodGet, "h?app=shop", "").ExcludedDates, 6)
}

// TestV2CalendarsOfADeletedApp checks that an import and a PUT say that the app is being deleted.
func TestV2CalendarsOfADeletedApp(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Calendar(t, 200, http.MethodPut, "h?app=shop", `{}`)
	a := f.Call(t, http.MethodDelete, "/api/v2/apps/shop?confirm=shop", "", nil)
	require.Equal(t, http.StatusAccepted, a.Status, a.Body)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "h?app=shop", `{"excluded_weekdays":["sun"]}`},
		{http.MethodPost, "h/import?app=shop", apitest.Holidays},
		{http.MethodPost, "new/import?app=shop", apitest.Holidays},
	} {
		p := f.Problem(t, http.StatusConflict, c.method, "/api/v2/calendars/"+c.path, c.body)
		require.Equal(t, "query.app", p.Errors[0].Location, c.path)
		require.Contains(t, p.Detail, "wait until its job delete_app is done", c.path)
	}
}

// TestV2ControlsAskForTheAppsKey checks that an app's key gives no access to another app.
func TestV2ControlsAskForTheAppsKey(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(
		t,
		func(o *api.Options) { o.Auth = auth.Rules{Keys: auth.Keys{sha256.Sum256([]byte("k1")): "shop"}} },
	)
	key := map[string]string{"Authorization": "Bearer k1"}
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPut, "/api/v2/timers", strings.Replace(apitest.V2Body, "shop", "desk", 1)},
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
		{http.MethodPost, "/api/v2/calendars/c/import?app=desk", apitest.Holidays},
		{http.MethodPost, "/api/v2/schedules/preview", `{"app":"desk","schedule":{"kind":"delay","delay":"1s"}}`},
	} {
		require.Equal(t, 404, f.Call(t, c.method, c.path, c.body, key).Status, c.path)
		require.Equal(t, 401, f.Call(t, c.method, c.path, c.body, nil).Status, c.path)
	}
}
