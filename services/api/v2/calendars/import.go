package calendars

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type importInput struct {
	CalendarParam
	param.DryRunParam

	As        string `query:"as" enum:"excluded,included" default:"excluded" doc:"What the dates of the events become: every date that an event touches by the wall clock of the calendar's time_zone. Where the calendar has none, as the file writes them, and times in UTC by its X-WR-TIMEZONE."`
	Mode      string `query:"mode" enum:"merge,replace" default:"merge" doc:"Whether the dates are added to those that are there, or take their place. Everything else of the calendar stays."`
	IfVersion int64  `query:"if_version" minimum:"1" doc:"Change it only if this is its version; else 409."`
	RawBody   []byte `contentType:"text/calendar" required:"true"`
}

type importOutput struct{ Body importedCalendar }

type importedCalendar struct {
	ShownCalendar

	Import importBody `json:"import" doc:"What the file held."`
}

type importBody struct {
	Dates        int      `json:"dates" doc:"How many dates its events cover from 1970 to 2199. Others are passed over."`
	TimedEvents  int      `json:"timed_events,omitempty" doc:"How many of its events begin at a time of day. The dates that they touch are taken as a whole."`
	UnknownZones []string `json:"unknown_zones,omitempty" doc:"Time zones of the file that are not known, at most 10. Their times count as in the calendar's time zone."`
	EndlessFrom  string   `json:"endless_from,omitempty" format:"date" doc:"Rules without an end count from this date on: they have begun so long ago that there would be more than 5000 dates. Left out where they count from where they begin."`
	EndlessUntil string   `json:"endless_until,omitempty" format:"date" doc:"Rules without an end count up to this date: the end of 2099, or of the last year up to which there are at most 5000 dates. Import the file again before that. Left out where all rules end."`
}

// importCalendar merges the dates of an iCalendar file into a calendar, and creates the calendar
// where it does not exist. When another change comes between read and write it starts again,
// because the calendar's zone decides how the file is read. No concurrent change is lost.
func (s *Resource) importCalendar(ctx context.Context, in *importInput) (*importOutput, error) {
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
	for range input.EditTries {
		there, err := s.Store.Calendar(ctx, in.App, in.Name)
		if timer.CodeOf(err) == timer.CodeNotFound && in.IfVersion == 0 {
			there, err = store.CalendarVersion{
				Calendar: timer.Calendar{Name: in.Name},
				Version:  store.IfAbsent,
			}, nil
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		read, err := calendar.ParseICS(
			bytes.NewReader(in.RawBody),
			calendar.ICS{Zone: there.Zone, Now: s.Now()},
		)
		if err != nil {
			return nil, fileProblem(err)
		}
		c := withDates(there.Calendar, read.Dates, in.As, in.Mode)
		if err := calendar.Check(&c); err != nil {
			return nil, err //nolint:wrapcheck // it names the field
		}
		version := there.Version
		if in.IfVersion != 0 {
			version = in.IfVersion
		}
		out, err := s.keepCalendar(ctx, in.App, c, version)
		if store.IsVersionConflict(err) && in.IfVersion == 0 {
			continue
		}
		if err != nil {
			return nil, versionProblem(err, "query.if_version")
		}
		return &importOutput{importedCalendar{out.Body, importBody{
			Dates: len(read.Dates), TimedEvents: read.TimedEvents, UnknownZones: read.UnknownZones,
			EndlessFrom: read.EndlessFrom, EndlessUntil: read.EndlessUntil,
		}}}, nil
	}
	return nil, timer.Unavailable("the calendar is changed too often", nil)
}

// fileProblem converts an error in the file, which is the whole body and not a field of it.
func fileProblem(err error) error {
	var e *timer.Error
	if !errors.As(err, &e) || e.Code != timer.CodeInvalid || e.Field != "body" {
		return err
	}
	return &huma.ErrorModel{
		Status: http.StatusUnprocessableEntity,
		Title:  http.StatusText(http.StatusUnprocessableEntity),
		Detail: "the file " + e.Msg,
		Errors: []*huma.ErrorDetail{{Location: e.Field, Message: e.Msg}},
	}
}

func withDates(c timer.Calendar, dates []string, as, mode string) timer.Calendar {
	list := &c.ExcludedDates
	if as == "included" {
		list = &c.IncludedDates
	}
	if mode == "merge" {
		dates = append(slices.Clone(*list), dates...)
	}
	slices.Sort(dates)
	*list = slices.Compact(dates)
	return c
}
