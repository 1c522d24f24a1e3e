package ui

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type calendarBody struct {
	Name             string
	Zone             string      `json:"time_zone"`
	ExcludedDates    []string    `json:"excluded_dates"`
	IncludedDates    []string    `json:"included_dates"`
	ExcludedWeekdays []string    `json:"excluded_weekdays"`
	AllowedTimes     []timeRange `json:"allowed_times"`
	Version          int64
	UpdatedAt        string `json:"updated_at"`
}

type timeRange struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Weekdays []string `json:"weekdays,omitempty"`
}

type calendarsData struct {
	Items []calendarBody
	Next  string // address of the next page
}

// listCalendars shows the calendars of an app.
func listCalendars(q *request) error {
	query := url.Values{"app": {q.app}, "limit": {"100"}}
	if c := q.r.URL.Query().Get("cursor"); c != "" {
		query.Set("cursor", c)
	}
	var list struct {
		Items      []calendarBody
		NextCursor string `json:"next_cursor"`
	}
	if err := q.get("/calendars", query, &list); err != nil {
		return err
	}
	d := &calendarsData{Items: list.Items}
	if c := list.NextCursor; c != "" {
		d.Next = q.appPath("calendars") + "?" + url.Values{"cursor": {c}}.Encode()
	}
	return q.show("calendars", d)
}

// openCalendar shows a calendar by its name, or the form of a new one.
func openCalendar(q *request) error {
	name := strings.TrimSpace(q.r.URL.Query().Get("name"))
	if name == "" {
		q.redirect(q.appPath("calendars"))
		return nil
	}
	q.redirect(q.appPath("calendars", name) + "?new=yes")
	return nil
}

// calendarForm is a calendar as a form has it: a date or a range on each line.
type calendarForm struct {
	Zone, Excluded, Included, Times string
	Weekdays                        []string
	Version                         int64 // 0: it does not exist yet
}

// Off reports whether the form excludes a weekday.
func (f *calendarForm) Off(weekday string) bool { return slices.Contains(f.Weekdays, weekday) }

func formOf(c *calendarBody) calendarForm {
	f := calendarForm{
		Zone: c.Zone, Excluded: strings.Join(c.ExcludedDates, "\n"),
		Included: strings.Join(c.IncludedDates, "\n"), Weekdays: c.ExcludedWeekdays,
		Version: c.Version,
	}
	lines := make([]string, len(c.AllowedTimes))
	for i, r := range c.AllowedTimes {
		lines[i] = strings.TrimSpace(r.From + "-" + r.To + " " + strings.Join(r.Weekdays, ","))
	}
	f.Times = strings.Join(lines, "\n")
	return f
}

// body returns the calendar as the API takes it. The API checks what a line has.
func (f *calendarForm) body() map[string]any {
	in := map[string]any{
		"excluded_dates": nonNil(strings.Fields(f.Excluded)),
		"included_dates": nonNil(strings.Fields(f.Included)),
		// The API takes weekdays in any order.
		"excluded_weekdays": nonNil(f.Weekdays),
	}
	if f.Zone != "" {
		in["time_zone"] = f.Zone
	}
	times := []timeRange{}
	for line := range strings.Lines(f.Times) {
		hours, days, _ := strings.Cut(strings.TrimSpace(line), " ")
		if hours == "" {
			continue
		}
		r := timeRange{}
		r.From, r.To, _ = strings.Cut(hours, "-")
		r.Weekdays = strings.FieldsFunc(days, func(c rune) bool { return c == ',' || c == ' ' })
		times = append(times, r)
	}
	in["allowed_times"] = times
	if f.Version > 0 {
		in["if_version"] = f.Version
	}
	return in
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

type calendarTimers struct {
	Items      []struct{ ID, Name, Status string }
	NextCursor string `json:"next_cursor"`
}

type calendarImport struct {
	Dates        int
	TimedEvents  int      `json:"timed_events"`
	UnknownZones []string `json:"unknown_zones"`
	EndlessFrom  string   `json:"endless_from"`
	EndlessUntil string   `json:"endless_until"`
}

type calendarData struct {
	Calendar  calendarBody // as the API has it; version 0: it does not exist
	Form      calendarForm
	Year      calendarYear
	Timers    calendarTimers
	Next      string // address of the next page of timers
	Imported  *calendarImport
	Changed   bool // somebody changed it since the form was shown
	Refused   *apiError
	RefusedAt string // the section to which the error belongs
}

// calendarPath returns the path in the API of the calendar of a request. query (nil: none) is added
// to the path.
func (q *request) calendarPath(query url.Values, parts ...string) string {
	path := "/calendars" + pathOf(append([]string{q.r.PathValue("name")}, parts...)...)
	all := url.Values{"app": {q.app}}
	maps.Copy(all, query)
	return path + "?" + all.Encode()
}

func showCalendar(q *request) error {
	d := new(calendarData)
	var in importedFile
	if q.r.URL.Query().Get("did") == "import" && q.takeOver(importedCookie, &in) &&
		in.Name == q.r.PathValue("name") {
		setCookie(q.w, q.r, importedCookie, "", -time.Second)
		d.Imported = &in.Import
	}
	return q.showCalendar(http.StatusOK, d)
}

// showCalendar reads the calendar and shows it. What the viewer entered stays in the form.
func (q *request) showCalendar(status int, d *calendarData) error {
	err := q.get(q.calendarPath(nil), nil, &d.Calendar)
	missing := hasStatus(err, http.StatusNotFound)
	if missing && q.caller().May("write") &&
		(q.r.Method != http.MethodGet || q.r.URL.Query().Get("new") == "yes") {
		// An app that the viewer may not see is not found, either.
		err = q.get("/calendars", url.Values{"app": {q.app}, "limit": {"1"}}, nil)
		d.Calendar.Name = q.r.PathValue("name")
	}
	if err != nil {
		return err
	}
	if d.RefusedAt != "edit" {
		d.Form = formOf(&d.Calendar)
	}
	if !missing {
		query := url.Values{}
		if c := q.r.URL.Query().Get("cursor"); c != "" {
			query.Set("cursor", c)
		}
		if err := q.get(q.calendarPath(query, "timers"), nil, &d.Timers); err != nil {
			return err
		}
	}
	if c := d.Timers.NextCursor; c != "" {
		d.Next = q.appPath("calendars", d.Calendar.Name) + "?" +
			url.Values{"cursor": {c}}.Encode() + "#timers"
	}
	d.Year = q.calendarYear(&d.Calendar)
	return q.render(status, "calendar", d)
}

// refuseCalendar shows the calendar with an error about a section, if it is one about the input.
func (q *request) refuseCalendar(section string, d *calendarData, err error) error {
	if d.Refused = refusedInput(err); d.Refused == nil {
		return err
	}
	d.RefusedAt = section
	return q.showCalendar(d.Refused.Status, d)
}

// putCalendar replaces the calendar from which the form was made. If somebody changed it since, the
// page shows both, and the form replaces the present one when it is sent again.
func putCalendar(q *request) error {
	form := func(name string) string { return strings.TrimSpace(q.r.PostFormValue(name)) }
	d := &calendarData{Form: calendarForm{
		Zone: form("time_zone"), Excluded: form("excluded_dates"), Included: form("included_dates"),
		Times: form("allowed_times"), Weekdays: q.r.PostForm["excluded_weekdays"],
	}}
	d.Form.Version, _ = strconv.ParseInt(form("version"), 10, 64) // 0: a new one
	condition := ""                                               // the version is in the body
	if d.Form.Version == 0 {
		condition = "*"
	}
	err := q.with("If-None-Match", condition).
		do(http.MethodPut, q.calendarPath(nil), d.Form.body(), nil)
	if hasStatus(err, http.StatusConflict) || hasStatus(err, http.StatusPreconditionFailed) {
		var now calendarBody
		readErr := q.get(q.calendarPath(nil), nil, &now)
		if readErr != nil && !hasStatus(readErr, http.StatusNotFound) {
			return readErr
		}
		d.Changed, d.Form.Version = now.Version != d.Form.Version, now.Version
	}
	if err != nil {
		return q.refuseCalendar("edit", d, err)
	}
	q.did(q.appPath("calendars", q.r.PathValue("name")), "calendar")
	return nil
}

func deleteCalendar(q *request) error {
	if err := q.do(http.MethodDelete, q.calendarPath(nil), nil, nil); err != nil {
		return q.refuseCalendar("delete", new(calendarData), err)
	}
	q.did(q.appPath("calendars"), "calendar_delete")
	return nil
}
