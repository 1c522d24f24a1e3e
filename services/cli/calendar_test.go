package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestImportsNameTimedEvents checks that events with times do not exclude whole days without a word.
func TestImportsNameTimedEvents(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	event := func(lines ...string) string {
		return "BEGIN:VEVENT\r\nUID:" + strings.Join(
			lines,
			"",
		) + "\r\nDTSTAMP:20260101T000000Z\r\n" +
			strings.Join(
				lines,
				"\r\n",
			) + "\r\nEND:VEVENT\r\n"
	}
	file := func(events ...string) string {
		return u.file(
			"days.ics",
			"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VTIMEZONE\r\n"+
				"TZID:x\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nTZOFFSETFROM:+0100\r\n"+
				"TZOFFSETTO:+0100\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"+strings.Join(events, "")+
				"END:VCALENDAR\r\n",
		)
	}
	day := event("DTSTART;VALUE=DATE:20300101")
	require.Equal(t,
		"calendar days: 1 dates taken\n", u.do("calendar", "import", "days", "-f", file(day)))
	require.Equal(t,
		"calendar days: 3 dates would be taken, of which it has 1 already\n"+
			"  2030-01-02\n  2030-01-03\n",
		u.do("calendar", "import", "days", "--dry-run", "-f", file(
			day, event("DTSTART;VALUE=DATE:20300102", "DTEND;VALUE=DATE:20300104"))),
	)
	said := u.do("calendar", "import", "new", "--dry-run", "-f", file(
		event("DTSTART;VALUE=DATE:20300101", "DTEND;VALUE=DATE:20300114")))
	require.Contains(t, said, "13 dates would be taken, of which it has 0 already\n  2030-01-01\n")
	require.Contains(t, said, "\n  2030-01-10\n  and 3 more\n")
	said = u.do("calendar", "import", "days", "-f", file(
		day, event("DTSTART:20300102T230000Z", "DTEND:20300103T010000Z"),
		event("DTSTART;TZID=\r\n x:20300105T090000"),
		event("DTSTART:20300109T230000Z", "STATUS:CANCELLED"),
	))
	require.Equal(
		t,
		"calendar days: 4 dates taken\ncalendar days: note: events with times of day: 2; "+
			"the dates that they touch are excluded as a whole\n",
		said,
	)
	u.do("apply", "-f", u.file("days.yaml", "kind: calendar\nname: days\ntime_zone: Asia/Tokyo\n"))
	said = u.do("calendar", "import", "days", "-f", file(
		event("DTSTART;TZID=W. Europe Standard Time:20300101T230000"),
		event("DTSTART;TZID=x:20300105T090000"),
	))
	require.Contains(
		t,
		said,
		"days: note: unknown time zones: W. Europe Standard Time; their times count",
	)
	said = u.do("calendar", "import", "days", "-f", file(
		event("DTSTART;VALUE=DATE:19700101", "RRULE:FREQ=DAILY"),
	))
	require.Regexp(t, `days: note: rules without an end count from \d{4}-\d\d-\d\d on\n`, said)
	require.Regexp(t, `count up to \d{4}-\d\d-\d\d: import the file again before that\n`, said)
}
