package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
)

var icsZones = []string{
	"Europe/Berlin",
	"America/New_York",
	"America/Santiago",
	"America/Havana",
	"Australia/Lord_Howe",
	"Asia/Kolkata",
	"Pacific/Auckland",
	"America/St_Johns",
	"UTC",
}

// TestRulesUseTheirOwnWallClock: as written in the file, the days of an event do not depend on its
// zone, even with unusual midnights. So files that differ only in the zone have the same days. In
// UTC they are those of a calendar in UTC.
func TestRulesUseTheirOwnWallClock(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		days := func(kind, zone string) string {
			f := newRandomEvent(rand.New(rand.NewPCG(seed, 9)), kind, true).file()
			got, err := calendar.ParseICS(strings.NewReader(f), in(zone))
			require.NoError(t, err, f)
			return strings.Join(got.Dates, " ")
		}
		want := days("", "")
		for _, kind := range []string{";TZID=" + icsZones[seed%uint64(len(icsZones))], ";TZID=Home", ";TZID=America/Santiago", "Z"} {
			require.Equal(t, want, days(kind, ""), "seed %d, %s", seed, kind)
		}
		require.Equal(t, want, days("Z", "UTC"), "seed %d", seed)
	}
}

// randomEvent is a recurring event. Its times are on its own wall clock.
type randomEvent struct {
	r     *rand.Rand
	kind  string // text after the name of a property with a time
	date  bool
	local bool   // UNTIL is a local time, even with a zone
	z     string // suffix of a time
	start time.Time
	lines []string // lines of the event
	more  []string // further events
}

// newRandomEvent returns an event. kind is the text after the name of a property, or Z.
func newRandomEvent(r *rand.Rand, kind string, local bool) *randomEvent {
	e := &randomEvent{r: r, kind: kind, date: kind == ";VALUE=DATE", local: local}
	if kind == "Z" {
		e.kind, e.z = "", kind
	}
	e.start = time.Date(
		2016+r.IntN(8),
		time.Month(1+r.IntN(12)),
		1+r.IntN(31),
		0,
		0,
		0,
		0,
		time.UTC,
	)
	if r.IntN(4) == 0 { // a day near clock changes
		e.start = time.Date(
			2025,
			[]time.Month{time.March, time.September, time.October, time.November}[r.IntN(4)],
			1+r.IntN(30),
			0,
			0,
			0,
			0,
			time.UTC,
		)
	}
	if !e.date {
		e.start = e.start.Add(
			time.Duration(
				[]int{0, 0, 30, 60, 23 * 60, 23*60 + 30, r.IntN(1440), r.IntN(1440)}[r.IntN(8)],
			) * time.Minute,
		)
	}
	e.lines = []string{"DTSTART" + e.at(e.start)}
	e.lines = append(e.lines, e.length(e.start)...)
	e.recur()
	return e
}

// at formats a time of the event, including parameters.
func (e *randomEvent) at(t time.Time) string { return e.kind + ":" + e.text(t) }

func (e *randomEvent) text(t time.Time) string {
	if e.date {
		return t.Format("20060102")
	}
	return t.Format("20060102T150405") + e.z
}

func (e *randomEvent) length(start time.Time) []string {
	days, minutes := 1+e.r.IntN(3), []int{1, 30, 60, 24 * 60, 1 + e.r.IntN(3000)}[e.r.IntN(5)]
	switch n := e.r.IntN(5); {
	case n == 0:
		return nil
	case e.date && n < 3:
		return []string{"DTEND" + e.at(start.AddDate(0, 0, days))}
	case e.date:
		return []string{fmt.Sprintf("DURATION:P%dD", days)}
	case n < 3:
		return []string{"DTEND" + e.at(start.Add(time.Duration(minutes)*time.Minute))}
	default:
		return []string{fmt.Sprintf("DURATION:PT%dM", minutes)}
	}
}

func (e *randomEvent) recur() {
	r := e.r
	rule, step := e.rule()
	e.lines = append(e.lines, "RRULE:"+rule)
	some := func() time.Time { return e.start.AddDate(0, 0, step*r.IntN(40)) }
	for range r.IntN(3) {
		e.lines = append(e.lines, "EXDATE"+e.at(some()))
	}
	// For events with times, an EXDATE of a date removes the whole day, but no changed occurrences.
	// Python also takes it for an occurrence at midnight.
	if e.start.Hour() > 0 && r.IntN(8) == 0 {
		e.lines = append(e.lines, "EXDATE;VALUE=DATE:"+some().Format("20060102"))
	}
	if r.IntN(3) == 0 {
		e.lines = append(e.lines, "RDATE"+e.at(some().AddDate(0, 0, r.IntN(5)))+","+e.text(some()))
	}
	for _, k := range r.Perm(20)[:r.IntN(4)] {
		at := e.start.AddDate(0, 0, step*k)
		to := at.AddDate(0, 0, r.IntN(9)-4)
		if !e.date {
			to = to.Add(time.Duration(r.IntN(600)-300) * time.Minute)
		}
		later := ""
		if r.IntN(4) == 0 {
			later = ";RANGE=THISANDFUTURE"
		}
		change := []string{"RECURRENCE-ID" + later + e.at(at), "DTSTART" + e.at(to)}
		if r.IntN(4) == 0 {
			change = append(change, "STATUS:CANCELLED")
		}
		e.more = append(e.more, strings.Join(append(change, e.length(to)...), "\n"))
	}
}

// rule returns a random rule that includes the event's start, and a distance in days of likely
// recurrences.
func (e *randomEvent) rule() (rule string, step int) {
	r := e.r
	day := strings.ToUpper(e.start.Weekday().String()[:2])
	days := day
	for _, other := range []string{"MO", "TU", "WE", "TH", "FR", "SA", "SU"} {
		if other != day && r.IntN(5) == 0 {
			days += "," + other
		}
	}
	months := fmt.Sprintf("%d,%d", e.start.Month(), 1+r.IntN(12))
	parts := []string{"FREQ=" + []string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}[r.IntN(4)]}
	step = 1
	switch parts[0][5:] {
	case "DAILY":
		if r.IntN(3) == 0 {
			parts = append(parts, "BYDAY="+days)
		}
		if r.IntN(5) == 0 {
			parts = append(
				parts,
				fmt.Sprintf("BYMONTHDAY=%d,%d,-%d", e.start.Day(), 1+r.IntN(31), 1+r.IntN(31)),
			)
		}
	case "WEEKLY":
		step = 7
		if r.IntN(3) > 0 {
			parts = append(parts, "BYDAY="+days)
		}
		if r.IntN(4) == 0 {
			parts = append(parts, "WKST="+[]string{"SU", "WE", "MO"}[r.IntN(3)])
		}
	case "MONTHLY":
		step = 28
		parts = append(parts, e.ofMonth(day)...)
	default:
		step = 365
		parts = append(parts, e.ofYear(day)...)
	}
	if parts[0] != "FREQ=YEARLY" && r.IntN(6) == 0 {
		parts = append(parts, "BYMONTH="+months)
	}
	if r.IntN(3) == 0 {
		parts = append(parts, fmt.Sprintf("INTERVAL=%d", 1+r.IntN(4)))
	}
	switch until := e.start.AddDate(r.IntN(6), r.IntN(12), r.IntN(20)); r.IntN(4) {
	case 0:
		parts = append(parts, fmt.Sprintf("COUNT=%d", 1+r.IntN(60)))
	case 1, 2:
		switch {
		case e.date, e.kind == "" && e.z == "", e.local: // like DTSTART
			parts = append(parts, "UNTIL="+e.text(until))
		default:
			parts = append(parts, "UNTIL="+until.Format("20060102T150405Z"))
		}
	}
	return strings.Join(parts, ";"), step
}

func (e *randomEvent) ofMonth(day string) []string {
	nth := (e.start.Day()-1)/7 + 1
	switch e.r.IntN(5) {
	case 0:
		return []string{fmt.Sprintf("BYDAY=%d%s", nth, day)}
	case 1:
		return []string{fmt.Sprintf("BYMONTHDAY=%d,-%d", e.start.Day(), 1+e.r.IntN(31))}
	case 2:
		return []string{"BYDAY=" + day, fmt.Sprintf("BYSETPOS=%d", nth)}
	case 3:
		return []string{"BYDAY=MO,TU,WE,TH,FR", "BYSETPOS=-1"} // DTSTART need not match it
	}
	return nil
}

func (e *randomEvent) ofYear(day string) []string {
	_, week := e.start.ISOWeek()
	switch e.r.IntN(7) {
	case 0:
		return []string{
			fmt.Sprintf("BYMONTH=%d", e.start.Month()),
			fmt.Sprintf("BYDAY=%d%s", (e.start.Day()-1)/7+1, day),
		}
	case 1:
		return []string{
			fmt.Sprintf("BYYEARDAY=%d,%d,-%d", e.start.YearDay(), 1+e.r.IntN(366), 1+e.r.IntN(366)),
		}
	case 2:
		return []string{fmt.Sprintf("BYWEEKNO=%d", week), "BYDAY=" + day}
	case 3:
		return []string{
			fmt.Sprintf("BYMONTH=%d,%d", e.start.Month(), 1+e.r.IntN(12)),
			fmt.Sprintf("BYMONTHDAY=%d", e.start.Day()),
		}
	case 4:
		return []string{fmt.Sprintf("BYDAY=%d%s", (e.start.YearDay()-1)/7+1, day)}
	case 5:
		return []string{fmt.Sprintf("BYMONTH=%d", e.start.Month()), "BYDAY=" + day, "BYSETPOS=-1,1"}
	}
	return nil
}

func (e *randomEvent) file() string {
	events := []string{"UID:a\n" + strings.Join(e.lines, "\n")}
	for _, other := range e.more {
		events = append(events, "UID:a\n"+other)
	}
	if e.kind != ";TZID=Home" {
		return file(events...)
	}
	return strings.Replace(
		file(events...),
		"BEGIN:VEVENT",
		strings.ReplaceAll(homeZone, "\n", "\r\n")+"BEGIN:VEVENT",
		1,
	)
}
