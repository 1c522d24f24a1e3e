package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// sixFields reads what we hand it: always seconds first, and descriptors other than @every.
var sixFields = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

const (
	everyPrefix = "@every"
	minFields   = 5
	maxFields   = 7
	dowField    = 5 // of six
	maxDow      = 7 // Sunday, like 0
)

// parseSpec reads one cron expression.
func parseSpec(spec string, loc *time.Location) (instants, error) {
	spec = strings.TrimSpace(spec)
	switch {
	case spec == "":
		return nil, errors.New("it is empty")
	case strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ="):
		return nil, errors.New("it names a time zone: put that into the field \"zone\"")
	case spec == everyPrefix || strings.HasPrefix(spec, everyPrefix+" "):
		return parseEvery(strings.TrimSpace(spec[len(everyPrefix):]))
	case strings.HasPrefix(spec, "@"):
		return calendarOf(spec, allYears(), loc)
	}
	fields := strings.Fields(spec)
	if len(fields) < minFields || len(fields) > maxFields {
		return nil, fmt.Errorf("it has %d fields: 5 (minute first), 6 (second first) or 7 (year last) are allowed", len(fields))
	}
	for _, f := range fields {
		if err := checkField(f); err != nil {
			return nil, err
		}
	}
	if len(fields) == minFields {
		fields = append([]string{"0"}, fields...)
	}
	years := allYears()
	if len(fields) == maxFields {
		var err error
		if years, err = parseYears(fields[maxFields-1]); err != nil {
			return nil, err
		}
		fields = fields[:maxFields-1]
	}
	fields[dowField] = sundayZero(fields[dowField])
	return calendarOf(strings.Join(fields, " "), years, loc)
}

// checkField refuses what robfig's parser would silently read as something else: "1,,2" as "1,2" and "*-5" as "*".
func checkField(f string) error {
	for part := range strings.SplitSeq(f, ",") {
		if part == "" {
			return fmt.Errorf("there is an empty place in the list %q", f)
		}
		base, _, _ := strings.Cut(part, "/")
		if strings.ContainsAny(base, "*?") && base != "*" && base != "?" {
			return fmt.Errorf("%q mixes * with something else", part)
		}
	}
	return nil
}

func calendarOf(spec string, years yearSet, loc *time.Location) (instants, error) {
	s, err := sixFields.Parse(spec)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what was being read
	}
	fields, ok := s.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("it is of a kind that is not supported")
	}
	return newCalendar(fields, years, loc), nil
}

// parseEvery reads the duration of an @every. Seconds are the finest step that a cron has.
func parseEvery(text string) (instants, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a duration such as \"90s\" or \"1h30m\"", text)
	case d < time.Second:
		return nil, errors.New("the shortest interval is 1s")
	case d%time.Second != 0:
		return nil, errors.New("the interval must be whole seconds")
	case d > MaxDelay:
		return nil, errors.New("the longest interval is 10 years (87600h)")
	}
	return every{ms: d.Milliseconds()}, nil
}

// sundayZero rewrites the day of week 7 to 0, which is all that robfig's parser knows as Sunday. What it does not understand it leaves
// to that parser to refuse.
func sundayZero(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		base, step, stepped := strings.Cut(part, "/")
		low, high, ranged := strings.Cut(base, "-")
		switch {
		case !ranged && low == "7":
			parts[i] = "0" // 7/2 is from 7 to 7
		case ranged && high == "7":
			parts[i] = daysUpToSunday(part, low, step, stepped)
		}
	}
	return strings.Join(parts, ",")
}

// daysUpToSunday lists the days of a range that ends in 7.
func daysUpToSunday(part, low, step string, stepped bool) string {
	from, err := strconv.Atoi(low)
	if err != nil {
		if from = weekday(low); from < 0 {
			return part
		}
	}
	by := 1
	if stepped {
		if by, err = strconv.Atoi(step); err != nil || by < 1 {
			return part
		}
		by = min(by, maxDow+1) // a longer step is as good
	}
	if from < 0 || from > maxDow {
		return part
	}
	var days []string
	for d := from; d <= maxDow; d += by {
		days = append(days, strconv.Itoa(d%maxDow))
	}
	return strings.Join(days, ",")
}

func weekday(name string) int {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(name, d.String()[:3]) {
			return int(d)
		}
	}
	return -1
}
