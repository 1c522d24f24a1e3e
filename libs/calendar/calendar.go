package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

const (
	secondsPerDay  = 86_400
	secondsPerHour = 3_600
	daysPerWeek    = 7
	minYear        = 1970
	maxYear        = 2199
)

var weekdayNames = [daysPerWeek]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Check validates a calendar. Its error is a *timer.Error (invalid) that names the field
// ("excluded_dates[3]").
func Check(c *timer.Calendar) error {
	_, err := New(c, nil)
	return err
}

// New prepares a calendar. schedules is the zone of the schedule. It applies if the calendar has no
// zone, and its database provides the calendar's zone. nil means UTC and zone.Default. Errors are
// those of Check.
func New(c *timer.Calendar, schedules *zone.Table) (*Rules, error) {
	if err := checkName(c.Name); err != nil {
		return nil, err
	}
	r := &Rules{name: c.Name, zone: schedules}
	if c.Zone != "" || schedules == nil {
		zones := zone.Default()
		if schedules != nil {
			zones = schedules.Database()
		}
		z, err := zones.Load(c.Zone)
		if err != nil {
			return nil, timer.Invalid("time_zone", err.Error())
		}
		r.zone = z
	}
	var err error
	if r.excluded, err = readDates("excluded_dates", c.ExcludedDates); err != nil {
		return nil, err
	}
	if r.included, err = readDates("included_dates", c.IncludedDates); err != nil {
		return nil, err
	}
	weekdays, err := readWeekdays("excluded_weekdays", c.ExcludedWeekdays)
	if err != nil {
		return nil, err
	}
	return r, r.setTimes(weekdays, c.AllowedTimes)
}

func checkName(name string) error {
	switch {
	case name == "":
		return timer.Invalid("name", "expected a name, found nothing")
	case len(name) > timer.MaxNameLen:
		return timer.Invalid(
			"name",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxNameLen, len(name)),
		)
	}
	return nil
}

// readDates returns days since 1970-01-01, ascending, without duplicates.
func readDates(field string, dates []string) ([]int32, error) {
	if len(dates) > timer.MaxCalendarDates {
		return nil, timer.Invalid(
			field,
			fmt.Sprintf("expected at most %d dates, found %d", timer.MaxCalendarDates, len(dates)),
		)
	}
	out := make([]int32, 0, len(dates))
	for i, text := range dates {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil || at.Year() < minYear || at.Year() > maxYear {
			return nil, timer.Invalid(
				fmt.Sprintf("%s[%d]", field, i),
				fmt.Sprintf(
					`expected a date from 1970-01-01 to 2199-12-31 such as "2026-12-25", found %q`,
					clip(text),
				),
			)
		}
		//nolint:gosec // 230 years have 84,000 days
		out = append(out, int32(at.Unix()/secondsPerDay))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// readWeekdays returns a set: bit n is n days after Sunday.
func readWeekdays(field string, names []string) (uint8, error) {
	var set uint8
	for i, name := range names {
		n := slices.Index(weekdayNames[:], strings.ToLower(name))
		if n < 0 {
			return 0, timer.Invalid(
				fmt.Sprintf("%s[%d]", field, i),
				fmt.Sprintf(
					`expected "mon", "tue", "wed", "thu", "fri", "sat" or "sun", found %q`,
					clip(name),
				),
			)
		}
		set |= 1 << n
	}
	return set, nil
}

// setTimes computes the allowed times of each weekday and of included dates.
func (r *Rules) setTimes(excludedDays uint8, ranges []timer.TimeRange) error {
	if len(ranges) > timer.MaxCalendarRanges {
		return timer.Invalid(
			"allowed_times",
			fmt.Sprintf(
				"expected at most %d ranges, found %d",
				timer.MaxCalendarRanges,
				len(ranges),
			),
		)
	}
	r.excludedDays, r.ranged = excludedDays, len(ranges) > 0
	whole := []span{{0, secondsPerDay}}
	if !r.ranged {
		r.onIncluded = whole
		for d := range r.onWeekday {
			r.onWeekday[d] = whole
		}
		return nil
	}
	for i, tr := range ranges {
		field := fmt.Sprintf("allowed_times[%d]", i)
		from, err := readTime(field+".from", tr.From)
		if err != nil {
			return err
		}
		to, err := readTime(field+".to", tr.To)
		if err != nil {
			return err
		}
		if from >= to {
			return timer.Invalid(
				field+".to",
				fmt.Sprintf(
					`expected a time after %q, found %q: a range that passes midnight is two, up to "24:00" and from "00:00"`,
					tr.From,
					tr.To,
				),
			)
		}
		days, err := readWeekdays(field+".weekdays", tr.Weekdays)
		if err != nil {
			return err
		}
		r.onIncluded = append(r.onIncluded, span{from, to})
		for d := range r.onWeekday {
			if len(tr.Weekdays) == 0 || days>>d&1 != 0 {
				r.onWeekday[d] = append(r.onWeekday[d], span{from, to})
			}
		}
	}
	r.onIncluded = merged(r.onIncluded)
	for d := range r.onWeekday {
		r.onWeekday[d] = merged(r.onWeekday[d])
	}
	return nil
}

// readTime returns seconds since midnight.
func readTime(field, text string) (int32, error) {
	bad := timer.Invalid(
		field,
		fmt.Sprintf(
			`expected a time from "00:00" to "24:00" such as "09:00" or "09:00:30", found %q`,
			clip(text),
		),
	)
	if len(text) != len("15:04") && len(text) != len("15:04:05") {
		return 0, bad
	}
	var total int32
	unit := int32(secondsPerHour)
	for i, part := range strings.Split(text, ":") {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || len(part) != 2 || i > 0 && n > 59 {
			return 0, bad
		}
		total += int32(n) * unit
		unit /= 60
	}
	if total > secondsPerDay {
		return 0, bad
	}
	return total, nil
}

// merged returns spans in ascending order, with a gap between any two. It does not modify its
// argument, which onWeekday may share.
func merged(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// clip shortens user input for an error.
func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
