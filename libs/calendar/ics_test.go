package calendar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// file makes an iCalendar file of events, each given by its lines without BEGIN and END.
func file(events ...string) string {
	out := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test//EN\r\n"
	for i, e := range events {
		if !strings.Contains(e, "UID:") {
			e = fmt.Sprintf("UID:%d\n%s", i, e)
		}
		out += "BEGIN:VEVENT\r\n" + strings.ReplaceAll(e, "\n", "\r\n") + "\r\nEND:VEVENT\r\n"
	}
	return out + "END:VCALENDAR\r\n"
}

func TestParseICS(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, want string }{
		{"a date", file("DTSTART;VALUE=DATE:20261225"), "2026-12-25"},
		{"days up to DTEND", file("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227"), "2026-12-24 2026-12-25 2026-12-26"},
		{"days of a DURATION", file("DTSTART;VALUE=DATE:20261224\nDURATION:P2D"), "2026-12-24 2026-12-25"},
		{"a time", file("DTSTART:20261225T090000"), "2026-12-25"},
		{"a time that ends at midnight", file("DTSTART;TZID=Europe/Berlin:20261225T090000\nDTEND;TZID=Europe/Berlin:20261226T000000"), "2026-12-25"},
		{"a night", file("DTSTART:20261225T220000\nDTEND:20261226T060000"), "2026-12-25 2026-12-26"},
		{"a time in UTC", file("DTSTART:20261224T230000Z\nDTEND:20261225T230000Z"), "2026-12-24 2026-12-25"},
		{
			"a time in UTC of a file with a zone",
			strings.Replace(file("DTSTART:20261224T230000Z\nDTEND:20261225T230000Z"), "VERSION", "X-WR-TIMEZONE:Europe/Berlin\r\nVERSION", 1), "2026-12-25",
		},
		{"a zone of the file's own", file("DTSTART;TZID=W. Europe Standard Time:20261225T230000"), "2026-12-25"},
		{"every year, counted", file("DTSTART;VALUE=DATE:20241225\nRRULE:FREQ=YEARLY;COUNT=3"), "2024-12-25 2025-12-25 2026-12-25"},
		{"every year until", file("DTSTART;VALUE=DATE:20241225\nRRULE:FREQ=YEARLY;UNTIL=20261225"), "2024-12-25 2025-12-25 2026-12-25"},
		{"a leap day", file("DTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY;UNTIL=20330101"), "2024-02-29 2028-02-29 2032-02-29"},
		{"the fourth Thursday", file("DTSTART;VALUE=DATE:20241128\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;COUNT=3"), "2024-11-28 2025-11-27 2026-11-26"},
		{"the last Monday in May", file("DTSTART;VALUE=DATE:20250526\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO;COUNT=2"), "2025-05-26 2026-05-25"},
		{"every month", file("DTSTART;VALUE=DATE:20260131\nRRULE:FREQ=MONTHLY;COUNT=3"), "2026-01-31 2026-03-31 2026-05-31"},
		{"every other week", file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=4"), "2026-01-05 2026-01-09 2026-01-19 2026-01-23"},
		{"every day", file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=3"), "2026-01-05 2026-01-06 2026-01-07"},
		{"the beginning counts", file("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=2;COUNT=1"), "2026-01-01 2026-02-02"},
		{"left out", file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;VALUE=DATE:20260106,20260107"), "2026-01-05 2026-01-08"},
		{"added", file("DTSTART;VALUE=DATE:20260105\nRDATE;VALUE=DATE:20260301,20260201"), "2026-01-05 2026-02-01 2026-03-01"},
		{
			"one occurrence moved",
			file("UID:a\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=2", "UID:a\nRECURRENCE-ID;VALUE=DATE:20260106\nDTSTART;VALUE=DATE:20260110"),
			"2026-01-05 2026-01-10",
		},
		{
			"one occurrence cancelled",
			file("UID:a\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=2", "UID:a\nSTATUS:CANCELLED\nRECURRENCE-ID;VALUE=DATE:20260106\nDTSTART;VALUE=DATE:20260106"),
			"2026-01-05",
		},
		{"cancelled", file("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED", "DTSTART;VALUE=DATE:20261226"), "2026-12-26"},
		{"twice the same", file("DTSTART;VALUE=DATE:20261225", "DTSTART;VALUE=DATE:20261225"), "2026-12-25"},
		{"long lines are folded", file("SUMMARY:Ch\n rist\n mas\nDTSTART;VALUE=DATE:2026\n 1225"), "2026-12-25"},
		{"a recurring day with a lost hour", file("DTSTART;TZID=Europe/Berlin:20261025T000000\nDTEND;TZID=Europe/Berlin:20261026T000000\nRRULE:FREQ=YEARLY;COUNT=2"), "2026-10-25 2027-10-25"},
		{
			"other components are passed over",
			strings.Replace(file("DTSTART;VALUE=DATE:20261225\nBEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT5M\nEND:VALARM"), "BEGIN:VEVENT",
				"BEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\nRRULE:FREQ=YEARLY\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\nBEGIN:VTODO\r\nDTSTART:20200101\r\nEND:VTODO\r\nBEGIN:VEVENT", 1),
			"2026-12-25",
		},
		{"no events", file(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := calendar.ParseICS(strings.NewReader(tt.file))
			require.NoError(t, err)
			require.Equal(t, tt.want, strings.Join(got, " "))
			require.NoError(t, calendar.Check(&timer.Calendar{Name: "x", ExcludedDates: got}))
		})
	}
}

func TestEndlessRulesEnd(t *testing.T) {
	t.Parallel()
	got, err := calendar.ParseICS(strings.NewReader(file("DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=YEARLY")))
	require.NoError(t, err)
	require.Len(t, got, 130)
	require.Equal(t, "2099-01-01", got[129])
}

type away struct{}

func (away) Read([]byte) (int, error) { return 0, errors.New("the line is cut") }

func TestParseICSRefuses(t *testing.T) {
	t.Parallel()
	never := make([]string, 4)
	for i := range never {
		never[i] = "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30"
	}
	tests := []struct{ name, file, msg string }{
		{"nothing", "", "empty"},
		{"something else", "<html>", "is not iCalendar"},
		{"too long", strings.Repeat("x", calendar.MaxICSBytes+1), "longer than"},
		{"half a file", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20260101", "is not iCalendar"},
		{"no start", file("SUMMARY:Christmas"), `event "Christmas" that cannot be read: it has no DTSTART`},
		{"no date", file("DTSTART;VALUE=DATE:20260230"), "DTSTART: expected a date"},
		{"no end", file("DTSTART;VALUE=DATE:20260203\nDTEND:tomorrow"), "DTEND: expected a date"},
		{"backwards", file("DTSTART;VALUE=DATE:20260203\nDTEND;VALUE=DATE:20260202"), "ends before it begins"},
		{"no duration", file("DTSTART;VALUE=DATE:20260203\nDURATION:P"), "DURATION"},
		{"no rule", file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=SOMETIMES"), "RRULE"},
		{"every second", file("DTSTART:20260203T000000Z\nRRULE:FREQ=SECONDLY"), "expected FREQ=YEARLY"},
		{"too many dates", file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY"), "more than 5000 dates"},
		{"a very long event", file("DTSTART;VALUE=DATE:20200203\nDTEND;VALUE=DATE:29990101"), "more than 5000 dates"},
		{"too far", file("DTSTART;VALUE=DATE:25000101"), "outside the years"},
		{"rules that never match", file(never...), "never matches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := calendar.ParseICS(strings.NewReader(tt.file))
			require.Equal(t, timer.CodeInvalid, timer.CodeOf(err))
			require.ErrorContains(t, err, tt.msg)
		})
	}
	_, err := calendar.ParseICS(away{})
	require.ErrorContains(t, err, "the line is cut")
}

func FuzzParseICS(f *testing.F) {
	f.Add(file("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYDAY=-1MO;BYSETPOS=2;COUNT=10\nEXDATE:20261225,20271225T000000Z"))
	f.Add(file("DTSTART;TZID=Europe/Berlin:20261225T090000\nDURATION:P1DT2H\nRECURRENCE-ID:20261225"))
	f.Fuzz(func(t *testing.T, text string) {
		dates, err := calendar.ParseICS(strings.NewReader(text))
		if err != nil {
			require.Equal(t, timer.CodeInvalid, timer.CodeOf(err))
			return
		}
		require.NoError(t, calendar.Check(&timer.Calendar{Name: "x", ExcludedDates: dates}))
	})
}
