package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/calendars"
)

type previewInput struct{ Body previewBody }

type previewBody struct {
	Schedule  definition.ScheduleBody `json:"schedule"`
	From      string                  `json:"from,omitempty" format:"date-time" doc:"Not included; now where it is left out, and then an instant of kind at that has passed is due at once, as of a timer that is made now. A fixed delay counts from it, as does what counts from the first activation." example:"2026-03-28T00:00:00Z"`
	Count     int                     `json:"count,omitempty" minimum:"1" maximum:"1000" default:"10" doc:"How many fires."`
	App       string                  `json:"app,omitempty" maxLength:"64" doc:"The app whose calendars the schedule names, and whose timer timer_id is."`
	TimerID   string                  `json:"timer_id,omitempty" pattern:"^[0-9]{1,16}$" doc:"Preview for this timer: H, jitter and what counts from the first activation are its own, and max_fires counts the fires that it has had, and the instants between now and from."`
	Calendars []namedCalendar         `json:"calendars,omitempty" nullable:"false" maxItems:"8" doc:"Calendars that the schedule names and that are not made yet; they come before the app's."`
}

type namedCalendar struct {
	Name string `json:"name" minLength:"1" maxLength:"128"`

	calendars.CalendarBody
}

type forecastFire struct {
	Due   string `json:"due" format:"date-time" doc:"In UTC."`
	Local string `json:"local" format:"date-time" doc:"The same instant by the wall clock of the schedule's zone. Where its offset has seconds, which this form cannot write, they are left out of offset and time."`
}

type forecastExclusion struct {
	Due    string `json:"due" format:"date-time" doc:"In UTC; of a local time that does not exist, by the offset before the gap."`
	Local  string `json:"local"`
	Reason string `json:"reason" doc:"Which calendar excludes it or which policy passes it over, and where it was moved to."`
}

type previewOutput struct{ Body forecastBody }

type forecastBody struct {
	Fires    []forecastFire      `json:"fires" nullable:"false"`
	Excluded []forecastExclusion `json:"excluded" nullable:"false" doc:"Up to the last of the fires, at most 1000."`
	Warnings []WarningBody       `json:"warnings,omitempty" nullable:"false" doc:"Why the schedule, or one of its cron expressions, is never due after from, or why an instant that has passed is due at once."`
}

// previewSchedule uses the same code as the migrators, and writes nothing.
func (s *Resource) previewSchedule(ctx context.Context, in *previewInput) (*previewOutput, error) {
	b := &in.Body
	if b.App != "" {
		if err := s.Auth.AuthorizeApp(ctx, b.App); err != nil {
			return nil, err
		}
	}
	var r input.BodyReader
	d := s.Definitions.ReadSchedule(&b.Schedule, &r)
	from := r.ScheduleInstant("from", b.From)
	if from == nil {
		now := s.Now()
		from = &now
	}
	if !r.HasErrors("schedule") {
		r.Errs = append(r.Errs, input.Collect(schedule.Check(&d))...)
	}
	given := s.givenCalendars(b.Calendars, &r)
	if len(r.Errs) > 0 {
		return nil, s.Problems.Invalid(r.Errs)
	}
	ins := schedule.Inputs{}
	after, anchor := from.UnixMilli(), from.UnixMilli()
	if b.From == "" && d.Kind == timer.KindAt {
		after-- // an instant that has passed is due now, and now is included by default
	}
	var t timer.Timer // without timer_id: none
	var err error
	if b.TimerID != "" {
		if t, err = s.previewTimer(ctx, b); err != nil {
			return nil, err
		}
	}
	most := d.MaxFires
	if t.ID != 0 {
		ins.Timer, d.MaxFires = t.ID, 0 // the fires that it has had count, see endByMaxFires
		if t.AnchorMS != 0 && d.Kind != timer.KindFixedDelay {
			anchor = t.AnchorMS
		}
	}
	if ins.Calendars, err = s.previewCalendars(ctx, b.App, d.Calendars, given); err != nil {
		return nil, err
	}
	forecast, err := schedule.Preview(ctx, d, ins, after, anchor, b.Count)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the field, or says what it was doing
	}
	p, err := schedule.Parse(d, ins)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the field
	}
	var limited string
	if t.ID != 0 && most > 0 {
		next := func(ms int64) int64 { return p.Next(ms, anchor) }
		now := s.Now().UnixMilli()
		if limited, err = endByMaxFires(ctx, forecast, &t, most, after, now, next); err != nil {
			return nil, err
		}
	}
	out := showForecast(forecast)
	out.Body.Warnings = ShowWarnings(p.Warnings(after, anchor))
	if limited != "" {
		out.Body.Warnings = append(
			out.Body.Warnings, WarningBody{"body.schedule.max_fires", limited},
		)
	}
	if b.From == "" && d.Kind == timer.KindAt && len(forecast.Fires) > 0 &&
		input.CeilMS(*d.At) < after {
		out.Body.Warnings = append(
			out.Body.Warnings,
			WarningBody{"body.schedule.at", PassedUntil(input.CeilMS(*d.At), "it is due at once")},
		)
	}
	return out, nil
}

// givenCalendars parses the calendars in the request.
func (s *Resource) givenCalendars(
	bodies []namedCalendar,
	r *input.BodyReader,
) map[string]timer.Calendar {
	given := make(map[string]timer.Calendar, len(bodies))
	for i := range bodies {
		c := bodies[i].Read(bodies[i].Name)
		var e *timer.Error
		if err := calendar.Check(&c); errors.As(err, &e) {
			r.Errs = append(
				r.Errs,
				timer.Invalid(fmt.Sprintf("calendars[%d].%s", i, e.Field), e.Msg),
			)
		}
		given[c.Name] = c
	}
	return given
}

// previewTimer returns the timer that a preview is for. One that was never activated has no anchor:
// the start of the preview is used.
func (s *Resource) previewTimer(ctx context.Context, b *previewBody) (t timer.Timer, err error) {
	if b.App == "" {
		return t, timer.Invalid("app", "expected the app of timer_id, found nothing")
	}
	id, err := timer.ParseID(b.TimerID)
	if err != nil {
		return t, timer.NotFound("timer", b.TimerID)
	}
	return s.Store.Timer(ctx, b.App, id) //nolint:wrapcheck // the store says what it was doing
}

// maxCounted bounds the instants between now and the start of a preview that count for max_fires.
const maxCounted = 100_000

// endByMaxFires removes from a forecast what comes after the last fire that max_fires allows the
// timer. next returns the next instant of the schedule. It returns a warning if no fire is left at all,
// or if too many are due before the forecast to count them. Then the forecast has none.
func endByMaxFires(
	ctx context.Context,
	f *schedule.Forecast, t *timer.Timer, most, afterMS, nowMS int64, next func(int64) int64,
) (warning string, err error) {
	had := t.FiresCreated - upcoming.Ahead(t, nowMS)
	left := max(0, most-had)
	if left == 0 {
		warning = fmt.Sprintf(
			"the timer has had %d fires, so it is never due again",
			t.FiresCreated,
		)
	}
	countedMS := nowMS
	if t.Status == timer.StatusPaused { // what is due in the pause is skipped, and does not count
		countedMS = max(nowMS, t.PausedUntilMS-1)
	}
	for at, n := next(countedMS), 0; at <= afterMS && left > 0; n++ {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("counting the fires before the preview: %w", err)
		}
		if n == maxCounted {
			left = 0
			warning = fmt.Sprintf("more than %d fires are due before the preview begins, "+
				"so it does not know how many are left: begin earlier", maxCounted)
			break
		}
		left--
		at = next(at)
	}
	all := f.Fires
	f.Fires = []schedule.ForecastFire{}
	for _, x := range all {
		of := &left
		if x.Due.UnixMilli() <= nowMS {
			of = &had // the past of a timer has no more than it has had
		}
		if *of > 0 {
			*of--
			f.Fires = append(f.Fires, x)
		}
	}
	if n := len(f.Fires); n < len(all) {
		f.Excluded = slices.DeleteFunc(f.Excluded, func(x schedule.ForecastExclusion) bool {
			return n == 0 || x.Due.After(f.Fires[n-1].Due)
		})
	}
	return warning, nil
}

// previewCalendars returns the calendars that a schedule names.
func (s *Resource) previewCalendars(
	ctx context.Context,
	app string,
	names []string,
	given map[string]timer.Calendar,
) ([]timer.Calendar, error) {
	var out []timer.Calendar
	var missing []*timer.Error
	for i, name := range names {
		if c, ok := given[name]; ok {
			out = append(out, c)
			continue
		}
		if app == "" {
			missing = append(
				missing,
				timer.Invalid(
					fmt.Sprintf("schedule.calendars[%d]", i),
					fmt.Sprintf(
						"expected one of calendars, as no app is named, found %q: name the app, or give the calendar",
						name,
					),
				),
			)
			continue
		}
		c, err := s.Store.Calendar(ctx, app, name)
		switch {
		case timer.CodeOf(err) == timer.CodeNotFound:
			missing = append(missing, store.NoCalendar(i, name))
		case err != nil:
			return nil, err //nolint:wrapcheck // the store says what it was doing
		default:
			out = append(out, c.Calendar)
		}
	}
	if len(missing) > 0 {
		return nil, s.Problems.Invalid(missing)
	}
	return out, nil
}

func showForecast(f *schedule.Forecast) *previewOutput {
	out := &previewOutput{}
	out.Body.Fires = make([]forecastFire, len(f.Fires))
	for i, x := range f.Fires {
		out.Body.Fires[i] = forecastFire{Due: x.Due.UTC().Format(time.RFC3339Nano), Local: x.Local}
	}
	out.Body.Excluded = make([]forecastExclusion, len(f.Excluded))
	for i, x := range f.Excluded {
		out.Body.Excluded[i] = forecastExclusion{
			Due:    x.Due.UTC().Format(time.RFC3339Nano),
			Local:  x.Local,
			Reason: x.Reason,
		}
	}
	return out
}
