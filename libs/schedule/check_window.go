package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// checkInstants checks the instants and the limits of a schedule.
func checkInstants(s *timer.Schedule) error {
	for _, f := range []struct {
		name string
		at   *time.Time
	}{{"at", s.At}, {"anchor", s.Anchor}, {"start_at", s.StartAt}, {"end_at", s.EndAt}} {
		if f.at == nil {
			continue
		}
		msg := fmt.Sprintf(
			"expected an instant from %d to %d, found %q",
			minYear,
			maxYear,
			instantText(*f.at),
		)
		switch y := f.at.UTC().Year(); {
		case y < minYear:
			return timer.Invalid("schedule."+f.name, msg)
		case y > maxYear:
			return timer.Invalid(
				"schedule."+f.name,
				msg+fmt.Sprintf(": schedules end with the year %d", maxYear),
			)
		}
	}
	switch {
	case s.StartAt != nil && s.EndAt != nil && !s.StartAt.Before(*s.EndAt):
		return timer.Invalid(
			"schedule.end_at",
			fmt.Sprintf(
				"expected an instant later than start_at (%q), found %q",
				instantText(*s.StartAt),
				instantText(*s.EndAt),
			),
		)
	case s.MaxFires < 0:
		return timer.Invalid(
			"schedule.max_fires",
			fmt.Sprintf("expected a number of fires, or 0 for no limit, found %d", s.MaxFires),
		)
	case s.Jitter < 0 || s.Jitter > timer.MaxJitter:
		return timer.Invalid(
			"schedule.jitter",
			fmt.Sprintf(
				"expected a duration from 0s to %s, found %s",
				time.Duration(timer.MaxJitter),
				time.Duration(s.Jitter),
			),
		)
	}
	return nil
}

func instantText(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

func checkCalendars(s *timer.Schedule) error {
	if len(s.Calendars) > timer.MaxScheduleCalendars {
		return timer.Invalid(
			"schedule.calendars",
			fmt.Sprintf(
				"expected at most %d calendars, found %d",
				timer.MaxScheduleCalendars,
				len(s.Calendars),
			),
		)
	}
	for i, name := range s.Calendars {
		field := fmt.Sprintf("schedule.calendars[%d]", i)
		switch {
		case name == "":
			return timer.Invalid(field, "expected the name of a calendar, found nothing")
		case len(name) > timer.MaxNameLen:
			return timer.Invalid(
				field,
				fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxNameLen, len(name)),
			)
		case slices.Contains(s.Calendars[:i], name):
			return timer.Invalid(
				field,
				fmt.Sprintf("expected each calendar once, found %q a second time", name),
			)
		}
	}
	switch {
	case s.Excluded == "":
		return nil
	case len(s.Calendars) == 0:
		return timer.Invalid(
			"schedule.excluded",
			fmt.Sprintf(
				"expected nothing without calendars, found %q: name one in calendars, or leave it out",
				s.Excluded,
			),
		)
	case s.Excluded == timer.ExcludedPrevious && s.Kind == timer.KindFixedDelay:
		return timer.Invalid(
			"schedule.excluded",
			`expected "skip" or "next_allowed", as a fixed delay cannot end before it began, found "previous_allowed"`,
		)
	}
	return oneOf(
		"schedule.excluded",
		s.Excluded,
		timer.ExcludedSkip,
		timer.ExcludedNext,
		timer.ExcludedPrevious,
	)
}

// oneOf rejects a value that is neither empty nor in the list.
func oneOf[T ~string](field string, got T, known ...T) error {
	if got == "" || slices.Contains(known, got) {
		return nil
	}
	return timer.Invalid(field, fmt.Sprintf("expected %s, found %q", quoted(known), got))
}

// quoted formats values as "a", "b" or "c".
func quoted[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = strconv.Quote(string(v))
	}
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
