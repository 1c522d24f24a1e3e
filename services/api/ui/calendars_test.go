package ui_test

import (
	"bytes"
	"html"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const calendarPath = "/ui/apps/shop/calendars/work%20%2F%20days"

// upload returns the request of a form with a file.
func upload(t *testing.T, path, content string, fields url.Values) *http.Request {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for name := range fields {
		require.NoError(t, w.WriteField(name, fields.Get(name)))
	}
	file, err := w.CreateFormFile("file", "days.ics")
	require.NoError(t, err)
	_, err = file.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, &body)
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.Header.Set("Origin", own)
	return r
}

func TestCalendars(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	const list = "/ui/apps/shop/calendars"
	require.Contains(t, p.shown(list), "The app has no calendars yet.")
	w := p.get("/ui/apps/shop/calendar?name=work+%2F+days")
	require.Equal(t, calendarPath+"?new=yes", w.Header().Get("Location"))
	require.Contains(t, p.shown(calendarPath+"?new=yes"), "There is no calendar of this name yet.")
	require.Equal(t, http.StatusNotFound, p.get(calendarPath).Code)

	form := url.Values{
		"version": {"0"}, "time_zone": {"Europe/Berlin"}, "excluded_weekdays": {"sat", "sun"},
		"excluded_dates": {"2030-12-25\r\n2030-12-26"}, "included_dates": {"2030-12-21"},
		"allowed_times": {"09:00-17:30 mon,fri\r\n09:00-12:00"},
	}
	w = p.post(calendarPath, own, form)
	require.Equal(t, calendarPath+"?did=calendar", w.Header().Get("Location"), "%s", w.Body)
	body := p.shown(calendarPath + "?year=2030")
	require.Contains(t, body, "2 excluded dates and 1 included dates in this year.")
	require.Equal(t, 12, strings.Count(body, `<table class="month">`))
	require.Equal(t, 2, strings.Count(body, `<td class="day-excluded">`))
	require.Contains(t, body, `<td class="day-included">21<span class="hidden">, included date`)
	weekends := strings.Count(body, `<td class="day-weekday">`)
	require.Equal(t, 103, weekends, "of 104: one is included")
	require.Contains(t, body, "09:00-17:30 mon,fri\n09:00-12:00</textarea>")
	require.Contains(t, p.shown(calendarPath), "<dt>Last date named</dt><dd>2030-12-26</dd>")
	require.Contains(t, p.shown(list), ">work / days</a>")

	// Two viewers opened version 1, and a third makes a calendar of the same name.
	form.Set("version", "1")
	form.Set("excluded_dates", "2030-12-24")
	require.Equal(t, http.StatusSeeOther, p.post(calendarPath, own, form).Code)
	for version, status := range map[string]int{
		"0": http.StatusPreconditionFailed, "1": http.StatusConflict,
	} {
		form.Set("version", version)
		form.Set("excluded_dates", "2030-12-31")
		w = p.post(calendarPath, own, form)
		require.Equal(t, status, w.Code)
		body = w.Body.String()
		require.Contains(t, body, "Somebody changed the calendar")
		require.Contains(t, body, "2030-12-31</textarea>")
		require.Contains(t, body, `name="version" value="2"`)
	}
	for field, value := range map[string]string{
		"time_zone": "<script>", "excluded_dates": "2030-02-30", "allowed_times": "late",
		"excluded_weekdays": "day",
	} {
		bad := url.Values{"version": {"2"}, field: {value}}
		w = p.post(calendarPath, own, bad)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, field)
		require.Regexp(t, `<p>`+field+`[][0-9a-z_.]*: `, w.Body.String())
		require.NotContains(t, w.Body.String(), "body."+field, "it is said once")
		require.NotContains(t, w.Body.String(), "<script>")
	}

	made := f.Create(t, http.StatusCreated, apitest.With(
		`{"kind":"cron","specs":["@daily"],"calendars":["work / days"]}`, `"status":"active"`))
	require.Contains(t, p.shown(calendarPath), `/timers/`+made.ID+`">bill</a>`)
	w = p.post(calendarPath+"/delete", own, nil)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "bill")
	f.Call(t, http.MethodDelete, apitest.TimerPath(made.ID, ""), "", nil)
	require.Contains(t, p.shown(calendarPath), "No timer uses it.")
	w = p.post(calendarPath+"/delete", own, nil)
	require.Equal(t, "/ui/apps/shop/calendars?did=calendar_delete", w.Header().Get("Location"))
	require.Contains(t, p.shown(list), "The app has no calendars yet.")
}

// TestCalendarWithWeekdaysInCapitals shows a calendar as an older release has stored it.
func TestCalendarWithWeekdaysInCapitals(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	_, err := f.Store.PutCalendar(t.Context(), "shop", timer.Calendar{
		Name: "work / days", ExcludedWeekdays: []string{"SAT", "Sun"},
	}, 0)
	require.NoError(t, err)
	body := p.shown(calendarPath + "?year=2030")
	require.Equal(t, 104, strings.Count(body, `<td class="day-weekday">`))
	for _, day := range []string{"sat", "sun"} {
		require.Contains(t, body, `name="excluded_weekdays" value="`+day+`" checked`)
	}
	require.NotContains(t, p.shown("/ui/apps/shop/calendars"), "SAT")
}

// TestYearOfAllowedTimes checks that a day on which the calendar has no allowed times is marked.
func TestYearOfAllowedTimes(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t, func(o *api.Options) { o.Page = true }), true)
	w := p.post(calendarPath, own, url.Values{
		"allowed_times": {"09:00-17:30 mon,tue"}, "included_dates": {"2030-01-02"},
		"excluded_dates": {"2030-01-07"}, "time_zone": {"Pacific/Auckland"},
	})
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	body := p.shown(calendarPath + "?year=2030")
	// 53 Tuesdays and 52 of each other weekday; one Wednesday is included, one Monday excluded.
	require.Equal(t, 5*52-1, strings.Count(body, `<td class="day-no_times">`))
	require.Equal(t, 1, strings.Count(body, `<td class="day-included">`))
	require.Equal(t, 1, strings.Count(body, `<td class="day-excluded">`))
}

func TestImportOfACalendar(t *testing.T) {
	t.Parallel()
	p := open(t, apitest.Setup(t, func(o *api.Options) { o.Page = true }), true)
	w := p.followed(p.send(upload(t, calendarPath+"/import", apitest.Holidays, nil)))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	require.Contains(t, w.Body.String(), "The file had 2 dates.")
	body := p.shown(calendarPath + "?year=2026")
	require.Equal(t, 2, strings.Count(body, `<td class="day-excluded">`))
	w = p.followed(p.send(upload(
		t, calendarPath+"/import", apitest.Holidays, url.Values{"as": {"included"}})))
	require.Equal(t, http.StatusOK, w.Code)
	body = p.shown(calendarPath + "?year=2026")
	require.Equal(t, 2, strings.Count(body, `<td class="day-included">`), "stronger than excluded")
	const tokyo = "/ui/apps/shop/calendars/tokyo"
	w = p.post(tokyo, own, url.Values{"version": {"0"}, "time_zone": {"Asia/Tokyo"}})
	require.Equal(t, http.StatusSeeOther, w.Code, "%s", w.Body)
	w = p.followed(p.send(upload(t, tokyo+"/import", strings.ReplaceAll(
		"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nBEGIN:VEVENT\nUID:a\nDTSTAMP:20260101T000000Z\n"+
			"DTSTART;TZID=W. Europe Standard Time:20300101T230000\nRRULE:FREQ=YEARLY\nEND:VEVENT\n"+
			"END:VCALENDAR\n", "\n", "\r\n"), nil)))
	require.Equal(t, http.StatusOK, w.Code, "%s", w.Body)
	require.Contains(t, w.Body.String(), "Events with times of day: 1.")
	require.Contains(t, html.UnescapeString(w.Body.String()),
		"whose times count as in the calendar's: W. Europe Standard Time</p>")
	require.Contains(t, w.Body.String(), "Rules without an end count up to 2099-12-31")
	w = p.send(upload(t, calendarPath+"/import", "<script>", nil))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Equal(t, 1, strings.Count(w.Body.String(), "is not iCalendar"), "it is said once")
	require.NotContains(t, w.Body.String(), "<script>")
	w = p.post(calendarPath+"/import", own, nil)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "Choose a file.")
}

// TestImportOfALargeFile uploads more than the API takes through the API's own limit.
func TestImportOfALargeFile(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Page = true })
	w := httptest.NewRecorder()
	f.Api.Handler().ServeHTTP(
		w, upload(t, calendarPath+"/import", strings.Repeat("x", 3<<20), nil))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "The file is too large.")
}
