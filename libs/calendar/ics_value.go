package calendar

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/zone"
)

// anywhere is the location of dates, and of times of which nobody knows the zone: the same on every wall clock.
var anywhere = time.FixedZone("anywhere", 0)

func isDate(value string) bool { return len(strings.TrimSpace(value)) == len("20060102") }

// instant reads a DATE or a DATE-TIME of a property.
func (c *icsFile) instant(p *icsProperty, value string) (time.Time, error) {
	text := strings.ToUpper(strings.TrimSpace(value))
	const layout = "20060102T150405"
	switch {
	case isDate(text):
		if at, err := time.ParseInLocation("20060102", text, anywhere); err == nil {
			return at, nil
		}
	case strings.HasSuffix(text, "Z"):
		if at, err := time.Parse(layout+"Z", text); err == nil {
			return at.In(c.zone), nil
		}
	default:
		if at, err := time.ParseInLocation(layout, text, p.location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, p.wrong("expected a date such as 20261225 or a time such as 20261225T090000Z, found %q", clip(value))
}

// location is that of TZID. One that is not known is a name of the file's own.
func (p *icsProperty) location() *time.Location {
	if id := strings.TrimPrefix(p.params["TZID"], "/"); id != "" {
		if z, err := zone.Load(id); err == nil {
			return z.Location()
		}
	}
	return anywhere
}

var durationForm = regexp.MustCompile(`^\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?$`)

// readDuration returns seconds.
func readDuration(p *icsProperty, value string) (int64, error) {
	text := strings.ToUpper(strings.TrimSpace(value))
	m := durationForm.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(text, "P") || strings.HasSuffix(text, "T") {
		return 0, p.wrong("expected a duration such as P1D or PT2H30M, found %q", clip(value))
	}
	var total int64
	for i, unit := range []int64{daysPerWeek * secondsPerDay, secondsPerDay, secondsPerHour, 60, 1} {
		if n, err := strconv.ParseInt(m[i+1], 10, 64); err == nil {
			total += n * unit
		}
	}
	return total, nil
}
