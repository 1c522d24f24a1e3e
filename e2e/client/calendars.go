package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Calendar is a calendar in requests and responses of v2.
type Calendar struct {
	Name             string      `json:"name,omitempty"`
	TimeZone         string      `json:"time_zone,omitempty"`
	ExcludedDates    []string    `json:"excluded_dates,omitempty"`
	IncludedDates    []string    `json:"included_dates,omitempty"`
	ExcludedWeekdays []string    `json:"excluded_weekdays,omitempty"`
	AllowedTimes     []TimeRange `json:"allowed_times,omitempty"`
	IfVersion        int64       `json:"if_version,omitempty"` // in requests that change it
	Version          int64       `json:"version,omitempty"`    // in responses
}

// TimeRange is a range of the day.
type TimeRange struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Weekdays []string `json:"weekdays,omitempty"`
}

// PutCalendar creates or replaces a calendar.
func (c *Client) PutCalendar(
	ctx context.Context,
	app, name string,
	cal Calendar,
) (Calendar, error) {
	cal.Name, cal.Version = "", 0
	var out Calendar
	_, err := c.Do(ctx, http.MethodPut, calendarPath(app, name, "", nil), nil, cal, &out)
	return out, err
}

// GetCalendar returns a calendar.
func (c *Client) GetCalendar(ctx context.Context, app, name string) (Calendar, error) {
	var out Calendar
	_, err := c.Do(ctx, http.MethodGet, calendarPath(app, name, "", nil), nil, nil, &out)
	return out, err
}

// Calendars returns a page of an app's calendars and the cursor of the next one, empty at the end.
func (c *Client) Calendars(
	ctx context.Context,
	app string,
	limit int,
	cursor string,
) ([]Calendar, string, error) {
	q := url.Values{"app": {app}, "limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	var page struct {
		Items []Calendar `json:"items"`
		Next  string     `json:"next_cursor"`
	}
	_, err := c.Do(ctx, http.MethodGet, "/api/v2/calendars?"+q.Encode(), nil, nil, &page)
	return page.Items, page.Next, err
}

// DeleteCalendar deletes a calendar.
func (c *Client) DeleteCalendar(ctx context.Context, app, name string) error {
	_, err := c.Do(ctx, http.MethodDelete, calendarPath(app, name, "", nil), nil, nil, nil)
	return err
}

// ImportCalendar imports the dates of an iCalendar file into a calendar, as "excluded" or
// "included" dates.
func (c *Client) ImportCalendar(ctx context.Context, app, name, as, ics string) (Calendar, error) {
	var out Calendar
	_, err := c.Do(
		ctx,
		http.MethodPost,
		calendarPath(app, name, "/import", url.Values{"as": {as}}),
		nil,
		Text{"text/calendar", ics},
		&out,
	)
	return out, err
}

func calendarPath(app, name, below string, q url.Values) string {
	if q == nil {
		q = make(url.Values)
	}
	q.Set("app", app)
	return fmt.Sprintf("/api/v2/calendars/%s%s?%s", url.PathEscape(name), below, q.Encode())
}

// Preview asks for the fires of a schedule.
type Preview struct {
	Schedule  Schedule   `json:"schedule"`
	From      string     `json:"from,omitempty"`
	Count     int        `json:"count,omitempty"`
	App       string     `json:"app,omitempty"`
	TimerID   string     `json:"timer_id,omitempty"`
	Calendars []Calendar `json:"calendars,omitempty"`
}

// Forecast is the answer to a Preview.
type Forecast struct {
	Fires []struct {
		Due   time.Time `json:"due"`
		Local string    `json:"local"`
	} `json:"fires"`
	Excluded []struct {
		Due    time.Time `json:"due"`
		Local  string    `json:"local"`
		Reason string    `json:"reason"`
	} `json:"excluded"`
}

// Preview returns the next fires of a schedule, and its excluded instants.
func (c *Client) Preview(ctx context.Context, p Preview) (Forecast, error) {
	var f Forecast
	_, err := c.Do(ctx, http.MethodPost, "/api/v2/schedules/preview", nil, p, &f)
	return f, err
}

// FireID returns the fire's id in the receiver's form, or the zero id if it is invalid.
func (f *Fire) FireID() timer.FireID {
	id, err := timer.ParseFireID(f.ID)
	if err != nil {
		return timer.FireID{}
	}
	return id
}
