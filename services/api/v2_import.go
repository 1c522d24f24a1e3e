package api

import (
	"bytes"
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

type importInput struct {
	CalendarParam
	As        string `query:"as" enum:"excluded,included" default:"excluded" doc:"What the dates of the events become."`
	Mode      string `query:"mode" enum:"merge,replace" default:"merge" doc:"Whether the dates are added to those that are there, or take their place. Everything else of the calendar stays."`
	IfVersion int64  `query:"if_version" minimum:"1" doc:"Change it only if this is its version; else 409."`
	RawBody   []byte `contentType:"text/calendar" required:"true"`
}

// importCalendar takes the dates of an iCalendar file into a calendar, and makes the calendar where there is none. Where another change comes
// between its reading and its writing it begins anew, so that none is lost.
func (s *Service) importCalendar(ctx context.Context, in *importInput) (*calendarOutput, error) {
	if err := s.mayChange(ctx, "query.app", in.App); err != nil {
		return nil, err
	}
	if bad := collect(checkText("query.app", in.App, timer.MaxAppLen), checkText("path.name", in.Name, timer.MaxNameLen)); len(bad) > 0 {
		return nil, s.problems(bad)
	}
	dates, err := calendar.ParseICS(bytes.NewReader(in.RawBody))
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what is wrong with the file
	}
	for range editTries {
		there, err := s.opts.Store.Calendar(ctx, in.App, in.Name)
		if timer.CodeOf(err) == timer.CodeNotFound && in.IfVersion == 0 {
			there, err = store.CalendarVersion{Calendar: timer.Calendar{Name: in.Name}, Version: store.IfAbsent}, nil
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		c := withDates(there.Calendar, dates, in.As, in.Mode)
		if err := calendar.Check(&c); err != nil {
			return nil, err //nolint:wrapcheck // it names the field
		}
		version := there.Version
		if in.IfVersion != 0 {
			version = in.IfVersion
		}
		out, err := s.keepCalendar(ctx, in.App, c, version)
		if timer.CodeOf(err) == timer.CodeConflict && in.IfVersion == 0 {
			continue
		}
		return out, err
	}
	return nil, timer.Unavailable("the calendar is changed too often", nil)
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
