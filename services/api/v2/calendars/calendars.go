package calendars

import (
	"context"
	"errors"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// CalendarParam identifies a calendar.
type CalendarParam struct {
	param.AppParam
	Name string `path:"name" minLength:"1" maxLength:"128" doc:"The calendar's name, as schedules name it."`
}

type timeRangeBody struct {
	From     string   `json:"from" doc:"Included, by the wall clock." example:"09:00"`
	To       string   `json:"to" doc:"Not included; 24:00 is the end of the day. A range that passes midnight is two." example:"17:30"`
	Weekdays []string `json:"weekdays,omitempty" nullable:"false" maxItems:"7" doc:"On which it holds, mon to sun; on all where it is left out. On an included date it holds whatever the weekday." example:"[\"mon\",\"fri\"]"`
}

// CalendarBody is the content of a calendar. Included dates override excluded dates and weekdays,
// but not the allowed times.
type CalendarBody struct {
	Zone             string          `json:"time_zone,omitempty" doc:"IANA time zone; that of the schedule where it is left out." example:"Europe/Berlin"`
	ExcludedDates    []string        `json:"excluded_dates,omitempty" nullable:"false" maxItems:"5000" doc:"Days on which nothing is due." example:"[\"2026-12-25\"]"`
	IncludedDates    []string        `json:"included_dates,omitempty" nullable:"false" maxItems:"5000" doc:"Make-up workdays: stronger than both kinds of exclusion." example:"[\"2026-12-19\"]"`
	ExcludedWeekdays []string        `json:"excluded_weekdays,omitempty" nullable:"false" maxItems:"7" doc:"mon to sun." example:"[\"sat\",\"sun\"]"`
	AllowedTimes     []timeRangeBody `json:"allowed_times,omitempty" nullable:"false" maxItems:"48" doc:"Times of an allowed day; the whole day where there are none."`
}

// ShownCalendar is a calendar as it was written, with weekdays in lower case.
type ShownCalendar struct {
	App  string `json:"app"`
	Name string `json:"name"`

	CalendarBody

	Version   int64  `json:"version" doc:"From 1; every change makes a new one."`
	UpdatedAt string `json:"updated_at" format:"date-time"`
}

type calendarOutput struct{ Body ShownCalendar }

type putCalendarInput struct {
	CalendarParam
	param.DryRunParam

	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: only if there is no calendar of this name; else 412."`

	Body putCalendarBody
}

type putCalendarBody struct {
	CalendarBody

	IfVersion int64 `json:"if_version,omitempty" minimum:"1" doc:"Replace it only if this is its version; else 409."`
}

// Read returns the calendar of a body, with weekdays in lower case.
func (b *CalendarBody) Read(name string) timer.Calendar {
	c := timer.Calendar{
		Name:             name,
		Zone:             b.Zone,
		ExcludedDates:    b.ExcludedDates,
		IncludedDates:    b.IncludedDates,
		ExcludedWeekdays: weekdays(b.ExcludedWeekdays),
	}
	for _, r := range b.AllowedTimes {
		c.AllowedTimes = append(
			c.AllowedTimes,
			timer.TimeRange{From: r.From, To: r.To, Weekdays: weekdays(r.Weekdays)},
		)
	}
	return c
}

// weekdays returns names of weekdays in lower case, the form that clients can compare. Callers may
// write any case, and calendars that an older release stored have what they wrote.
func weekdays(names []string) (lower []string) {
	for _, n := range names {
		lower = append(lower, strings.ToLower(n))
	}
	return lower
}

// Show returns a calendar as the API shows it.
func Show(app string, c *store.CalendarVersion) ShownCalendar {
	b := ShownCalendar{
		App:       app,
		Name:      c.Name,
		Version:   c.Version,
		UpdatedAt: input.Instant(c.UpdatedMS),
		CalendarBody: CalendarBody{
			Zone:             c.Zone,
			ExcludedDates:    c.ExcludedDates,
			IncludedDates:    c.IncludedDates,
			ExcludedWeekdays: weekdays(c.ExcludedWeekdays),
		},
	}
	for _, r := range c.AllowedTimes {
		b.AllowedTimes = append(
			b.AllowedTimes,
			timeRangeBody{From: r.From, To: r.To, Weekdays: weekdays(r.Weekdays)},
		)
	}
	return b
}

// putCalendar takes effect for timers that name the calendar when a migrator expands them next,
// within moments.
func (s *Resource) putCalendar(ctx context.Context, in *putCalendarInput) (*calendarOutput, error) {
	if err := s.Auth.MayChange(ctx, "query.app", in.App); err != nil {
		return nil, err
	}
	if bad := input.Collect(
		input.CheckNewApp("query.app", in.App),
		input.CheckNewCalendar("path.name", in.Name),
	); len(
		bad,
	) > 0 {
		return nil, s.Problems.Invalid(bad)
	}
	if in.IfNoneMatch != "" && in.Body.IfVersion != 0 {
		return nil, timer.Invalid("if_version",
			"expected one condition, found If-None-Match, too: leave one of the two out")
	}
	c := in.Body.Read(in.Name)
	if err := calendar.Check(&c); err != nil {
		return nil, err //nolint:wrapcheck // it names the field
	}
	if in.IfNoneMatch == "" {
		out, err := s.keepCalendar(ctx, in.App, c, in.Body.IfVersion)
		return out, versionProblem(err, "if_version")
	}
	out, err := s.keepCalendar(ctx, in.App, c, store.IfAbsent)
	if store.IsVersionConflict(err) {
		err = huma.Error412PreconditionFailed("If-None-Match: a calendar of this name exists")
	}
	return out, err
}

// versionProblem names the field by which a caller gave the version of a calendar that is another now.
func versionProblem(err error, field string) error {
	if store.IsVersionConflict(err) {
		return timer.Conflict(
			field,
			"expected the version of the calendar, found another: read the calendar again",
		)
	}
	return err
}

// keepCalendar stores a checked calendar and returns it.
func (s *Resource) keepCalendar(
	ctx context.Context,
	app string,
	c timer.Calendar,
	ifVersion int64,
) (*calendarOutput, error) {
	v, err := s.Store.PutCalendar(ctx, app, c, ifVersion)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &calendarOutput{Show(app, &v)}, nil
}

func (s *Resource) getCalendar(ctx context.Context, in *CalendarParam) (*calendarOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	c, err := s.Store.Calendar(ctx, in.App, in.Name)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &calendarOutput{Show(in.App, &c)}, nil
}

type listCalendarsInput struct {
	param.AppParam
	param.PageParam
}

type calendarsOutput struct{ Body calendarsBody }

type calendarsBody struct {
	Items      []ShownCalendar `json:"items" nullable:"false"`
	NextCursor string          `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

func (s *Resource) listCalendars(
	ctx context.Context,
	in *listCalendarsInput,
) (*calendarsOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	var after string
	if in.Cursor != "" {
		var err error
		if after, err = input.DecodeCursor(input.CalendarsCursor, in.Cursor); err != nil {
			return nil, err
		}
	}
	out := &calendarsOutput{}
	out.Body.Items = make([]ShownCalendar, 0, min(in.Limit, ReadAtOnce))
	for dates := 0; ; {
		most := min(
			ReadAtOnce,
			in.Limit-len(out.Body.Items)+1,
		) // one more tells whether there are more
		found, err := s.Store.Calendars(ctx, in.App, after, most)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range found {
			if len(out.Body.Items) == in.Limit || dates > maxPageDates {
				out.Body.NextCursor = input.EncodeCursor(input.CalendarsCursor, after)
				return out, nil
			}
			out.Body.Items = append(out.Body.Items, Show(in.App, &found[i]))
			dates += len(found[i].ExcludedDates) + len(found[i].IncludedDates)
			after = found[i].Name
		}
		if len(found) < most {
			return out, nil
		}
	}
}

const (
	// ReadAtOnce is how many calendars are read at once, each with up to 10,000 dates.
	ReadAtOnce = 25
	// maxPageDates ends a page of calendars early, at about 4 MB.
	maxPageDates = 300_000
)

type deleteInput struct {
	CalendarParam
	param.DryRunParam
}

func (s *Resource) deleteCalendar(ctx context.Context, in *deleteInput) (*struct{}, error) {
	if err := s.Auth.MayChange(ctx, "query.app", in.App); err != nil {
		return nil, err
	}
	err := s.Store.DeleteCalendar(ctx, in.App, in.Name)
	e, ok := errors.AsType[*timer.Error](err)
	if ok && e.Code == timer.CodeConflict && e.Field == "calendar" {
		return nil, timer.Conflict("path.name", e.Msg+
			": GET /api/v2/calendars/{name}/timers lists all that do; take it out of these first")
	}
	return nil, err //nolint:wrapcheck // the store says what it was doing
}
