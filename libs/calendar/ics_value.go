package calendar

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// moment is a DATE or a DATE-TIME.
type moment struct {
	local int64 // wall clock time, in seconds since it showed 1970-01-01 00:00
	// in is nil for dates and for times of unknown zone. They are the same on every wall clock.
	in   *clock
	date bool
}

// unix returns the instant. A moment without a clock counts as UTC.
func (m moment) unix() int64 {
	if m.in == nil {
		return m.local
	}
	return m.in.unix(m.local)
}

// by returns the local time of the moment on another clock. A moment without a clock is the same on
// each.
func (m moment) by(other *clock) int64 {
	if m.in == nil || other == nil || m.in == other {
		return m.local
	}
	return other.local(m.in.unix(m.local))
}

func (m moment) String() string {
	layout := "20060102T150405"
	if m.date {
		layout = "20060102"
	}
	return wall(m.local).Format(layout)
}

// wall returns a local time as a time.Time in UTC, for calculations.
func wall(local int64) time.Time { return time.Unix(local, 0).UTC() }

func isDate(value string) bool { return len(strings.TrimSpace(value)) == len("20060102") }

// moment parses a DATE or DATE-TIME of a property.
func (c *icsFile) moment(p *icsProperty, value string) (moment, error) {
	m, err := readMoment(value)
	if err != nil {
		return m, p.wrong("%w", err)
	}
	if id := p.params["TZID"]; id != "" && !m.date && m.in == nil {
		if m.in, err = c.clock(id); err != nil {
			return m, err
		}
		if m.in == nil {
			c.addUnknownZone(id)
		}
	}
	return m, nil
}

func (c *icsFile) addUnknownZone(id string) {
	const most = 10
	if c.own == nil || len(c.unknownZones) == most {
		return
	}
	if id = clip(id); !slices.Contains(c.unknownZones, id) {
		c.unknownZones = append(c.unknownZones, id)
	}
}

// readMoment parses a DATE or DATE-TIME. Without UTC it has no clock.
func readMoment(value string) (moment, error) {
	text := strings.ToUpper(strings.TrimSpace(value))
	layout, m := "20060102T150405", moment{}
	switch {
	case isDate(text):
		layout, m.date = "20060102", true
	case strings.HasSuffix(text, "Z"):
		layout, m.in = layout+"Z", utc
	}
	at, err := time.Parse(layout, text)
	if err != nil {
		return m, fmt.Errorf(
			"expected a date such as 20261225 or a time such as 20261225T090000Z, found %q",
			clip(value),
		)
	}
	m.local = at.Unix()
	return m, nil
}

var durationForm = regexp.MustCompile(
	`^\+?P(?:(\d{1,4})W)?(?:(\d{1,5})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,7})M)?(?:(\d{1,8})S)?)?$`,
)

// readDuration parses a duration and returns seconds.
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
