package calendar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// file returns an iCalendar file of events, each given by its lines without BEGIN and END.
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

// homeZone is a zone defined in the file, with unusual clock changes.
const homeZone = "BEGIN:VTIMEZONE\nTZID:Home\n" +
	"BEGIN:STANDARD\nDTSTART:19701025T000000\nTZOFFSETFROM:+0430\nTZOFFSETTO:+0300\nRRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nEND:STANDARD\n" +
	"BEGIN:DAYLIGHT\nDTSTART:19700329T000000\nTZOFFSETFROM:+0300\nTZOFFSETTO:+0430\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nEND:DAYLIGHT\n" +
	"END:VTIMEZONE\n"

// own returns a file with its own zones: Home changes its clock by an hour and a half, Fixed never,
// and Some changed five times up to March 2025.
func own(events ...string) string {
	zones := homeZone + "BEGIN:VTIMEZONE\nTZID:Fixed\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0500\nTZOFFSETTO:+0500\nEND:STANDARD\nEND:VTIMEZONE\n" +
		"BEGIN:VTIMEZONE\nTZID:Some\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0500\nTZOFFSETTO:+0500\nEND:STANDARD\n" +
		"BEGIN:DAYLIGHT\nDTSTART:20230301T000000\nRDATE:20240301T000000,20250301T000000\nTZOFFSETFROM:+0500\nTZOFFSETTO:+0300\nEND:DAYLIGHT\n" +
		"BEGIN:STANDARD\nDTSTART:20231001T000000\nRRULE:FREQ=YEARLY;UNTIL=20240930T210000Z\nTZOFFSETFROM:+0300\nTZOFFSETTO:+0500\nEND:STANDARD\nEND:VTIMEZONE\n" +
		"BEGIN:VTIMEZONE\nTZID:Europe/Berlin\nBEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0000\nTZOFFSETTO:+0000\nEND:STANDARD\nEND:VTIMEZONE\n"
	return strings.Replace(
		file(events...),
		"BEGIN:VEVENT",
		strings.ReplaceAll(zones, "\n", "\r\n")+"BEGIN:VEVENT",
		1,
	)
}

// parse reads a file as if in November 2026.
func parse(t *testing.T, text, zone string) *calendar.ICSDates {
	t.Helper()
	got, err := calendar.ParseICS(strings.NewReader(text), in(zone))
	require.NoError(t, err)
	require.NoError(t, calendar.Check(&timer.Calendar{Name: "x", ExcludedDates: got.Dates}))
	return got
}

func in(zone string) calendar.ICS {
	return calendar.ICS{Zone: zone, Now: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
}

func TestParseICS(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, want string }{
		{"a date", file("DTSTART;VALUE=DATE:20261225"), "2026-12-25"},
		{
			"days up to DTEND",
			file("DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227"),
			"2026-12-24 2026-12-25 2026-12-26",
		},
		{
			"days of a DURATION",
			file("DTSTART;VALUE=DATE:20261224\nDURATION:P2D"),
			"2026-12-24 2026-12-25",
		},
		{"a time", file("DTSTART:20261225T090000"), "2026-12-25"},
		{
			"a time that ends at midnight",
			file(
				"DTSTART;TZID=Europe/Berlin:20261225T090000\nDTEND;TZID=Europe/Berlin:20261226T000000",
			),
			"2026-12-25",
		},
		{
			"a night",
			file("DTSTART:20261225T220000\nDTEND:20261226T060000"),
			"2026-12-25 2026-12-26",
		},
		{
			"a time in UTC",
			file("DTSTART:20261224T230000Z\nDTEND:20261225T230000Z"),
			"2026-12-24 2026-12-25",
		},
		{
			"a time in UTC of a file with a zone",
			strings.Replace(
				file("DTSTART:20261224T230000Z\nDTEND:20261225T230000Z"),
				"VERSION",
				"X-WR-TIMEZONE:Europe/Berlin\r\nVERSION",
				1,
			),
			"2026-12-25",
		},
		{
			"a zone of the file's own",
			file("DTSTART;TZID=W. Europe Standard Time:20261225T230000"),
			"2026-12-25",
		},
		{
			"every year, counted",
			file("DTSTART;VALUE=DATE:20241225\nRRULE:FREQ=YEARLY;COUNT=3"),
			"2024-12-25 2025-12-25 2026-12-25",
		},
		{
			"every year until",
			file("DTSTART;VALUE=DATE:20241225\nRRULE:FREQ=YEARLY;UNTIL=20261225"),
			"2024-12-25 2025-12-25 2026-12-25",
		},
		{
			"a leap day",
			file("DTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY;UNTIL=20330101"),
			"2024-02-29 2028-02-29 2032-02-29",
		},
		{
			"the fourth Thursday",
			file("DTSTART;VALUE=DATE:20241128\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH;COUNT=3"),
			"2024-11-28 2025-11-27 2026-11-26",
		},
		{
			"the last Monday in May",
			file("DTSTART;VALUE=DATE:20250526\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO;COUNT=2"),
			"2025-05-26 2026-05-25",
		},
		{
			"every month",
			file("DTSTART;VALUE=DATE:20260131\nRRULE:FREQ=MONTHLY;COUNT=3"),
			"2026-01-31 2026-03-31 2026-05-31",
		},
		{
			"every other week",
			file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;COUNT=4"),
			"2026-01-05 2026-01-09 2026-01-19 2026-01-23",
		},
		{
			"every day",
			file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=3"),
			"2026-01-05 2026-01-06 2026-01-07",
		},
		{
			"the beginning counts",
			file("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=2;COUNT=1"),
			"2026-01-01 2026-02-02",
		},
		{
			"left out",
			file(
				"DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;VALUE=DATE:20260106,20260107",
			),
			"2026-01-05 2026-01-08",
		},
		{
			"added",
			file("DTSTART;VALUE=DATE:20260105\nRDATE;VALUE=DATE:20260301,20260201"),
			"2026-01-05 2026-02-01 2026-03-01",
		},
		{
			"one occurrence moved",
			file(
				"UID:a\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=2",
				"UID:a\nRECURRENCE-ID;VALUE=DATE:20260106\nDTSTART;VALUE=DATE:20260110",
			),
			"2026-01-05 2026-01-10",
		},
		{
			"one occurrence cancelled",
			file(
				"UID:a\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=2",
				"UID:a\nSTATUS:CANCELLED\nRECURRENCE-ID;VALUE=DATE:20260106\nDTSTART;VALUE=DATE:20260106",
			),
			"2026-01-05",
		},
		{
			"cancelled",
			file("DTSTART;VALUE=DATE:20261225\nSTATUS:CANCELLED", "DTSTART;VALUE=DATE:20261226"),
			"2026-12-26",
		},
		{
			"twice the same",
			file("DTSTART;VALUE=DATE:20261225", "DTSTART;VALUE=DATE:20261225"),
			"2026-12-25",
		},
		{
			"long lines are folded",
			file("SUMMARY:Ch\n rist\n mas\nDTSTART;VALUE=DATE:2026\n 1225"),
			"2026-12-25",
		},
		{
			"a recurring day with a lost hour",
			file(
				"DTSTART;TZID=Europe/Berlin:20261025T000000\nDTEND;TZID=Europe/Berlin:20261026T000000\nRRULE:FREQ=YEARLY;COUNT=2",
			),
			"2026-10-25 2027-10-25",
		},
		{
			"a changed occurrence that was changed again",
			file(
				"UID:a\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=2",
				"UID:a\nSEQUENCE:2\nRECURRENCE-ID;VALUE=DATE:20260106\nDTSTART;VALUE=DATE:20260110",
				"UID:a\nSEQUENCE:1\nRECURRENCE-ID;VALUE=DATE:20260106\nDTSTART;VALUE=DATE:20260111",
			),
			"2026-01-05 2026-01-10",
		},
		{
			"this and all later occurrences moved, and one of those elsewhere",
			file(
				"UID:a\nDTSTART:20260105T090000\nDTEND:20260105T100000\nRRULE:FREQ=DAILY;COUNT=5",
				"UID:a\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260107T090000\nDTSTART:20260207T220000\nDTEND:20260208T020000",
				"UID:a\nRECURRENCE-ID:20260108T090000\nDTSTART:20260301T090000",
			),
			"2026-01-05 2026-01-06 2026-02-07 2026-02-08 2026-02-09 2026-02-10 2026-03-01",
		},
		{
			"this and all later occurrences cancelled",
			file(
				"UID:a\nDTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=9",
				"UID:a\nSTATUS:CANCELLED\nRECURRENCE-ID;VALUE=DATE;RANGE=THISANDFUTURE:20260107\nDTSTART;VALUE=DATE:20260107",
			),
			"2026-01-05 2026-01-06",
		},
		{
			"changed occurrences named in UTC, and by date",
			file(
				"UID:a\nDTSTART;TZID=Europe/Berlin:20260105T003000\nRRULE:FREQ=DAILY;COUNT=4",
				"UID:a\nRECURRENCE-ID:20260105T233000Z\nDTSTART:20260201T120000Z",
				"UID:a\nRECURRENCE-ID;VALUE=DATE:20260107\nDTSTART:20260202T120000Z",
			),
			"2026-01-05 2026-01-08 2026-02-01 2026-02-02",
		},
		{
			"left out, by date and without a zone",
			file(
				"DTSTART;TZID=Europe/Berlin:20260105T003000\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;VALUE=DATE:20260106\nEXDATE:20260107T003000",
			),
			"2026-01-05 2026-01-08",
		},
		{
			"a changed occurrence left out",
			file(
				"UID:a\nDTSTART:20260105T090000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260106T090000",
				"UID:a\nRECURRENCE-ID:20260106T090000\nDTSTART:20260110T090000",
			),
			"2026-01-05 2026-01-07",
		},
		{
			"a changed occurrence of a day left out",
			file(
				"UID:a\nDTSTART:20260105T090000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20260106",
				"UID:a\nRECURRENCE-ID:20260106T090000\nDTSTART:20260110T090000",
			),
			"2026-01-05 2026-01-07 2026-01-10",
		},
		{
			"dates left out by times",
			file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260106T000000Z"),
			"2026-01-05 2026-01-07",
		},
		{
			"until a date, of times",
			file("DTSTART;TZID=Europe/Berlin:20260105T233000\nRRULE:FREQ=DAILY;UNTIL=20260107"),
			"2026-01-05 2026-01-06 2026-01-07",
		},
		{
			"until an instant, of times of a zone",
			file(
				"DTSTART;TZID=Europe/Berlin:20260105T003000\nRRULE:FREQ=DAILY;UNTIL=20260106T233000Z",
			),
			"2026-01-05 2026-01-06 2026-01-07",
		},
		{
			"until an instant within an hour that comes twice",
			file(
				"DTSTART;TZID=Europe/Berlin:20261024T023000\nRRULE:FREQ=DAILY;UNTIL=20261025T010000Z",
			),
			"2026-10-24 2026-10-25",
		},
		{
			"until the beginning",
			file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;UNTIL=20260105"),
			"2026-01-05",
		},
		{"once", file("DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=DAILY;COUNT=1"), "2026-01-05"},
		{
			"other components are passed over",
			strings.Replace(
				file(
					"DTSTART;VALUE=DATE:20261225\nBEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT5M\nEND:VALARM",
				),
				"BEGIN:VEVENT",
				"BEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\nRRULE:FREQ=YEARLY\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\nBEGIN:VTODO\r\nDTSTART:20200101\r\nEND:VTODO\r\nBEGIN:VEVENT",
				1,
			),
			"2026-12-25",
		},
		{
			"lower case",
			"begin:vcalendar\nbegin:vevent\ndtstart;value=date:20241225\nrrule:freq=yearly;count=2\nend:vevent\nend:vcalendar\n",
			"2024-12-25 2025-12-25",
		},
		{"a byte order mark", "\ufeff" + file("DTSTART;VALUE=DATE:20261225"), "2026-12-25"},
		{
			"quoted parameters",
			file(`DTSTART;X-A="a:b;c,d",e;TZID="Europe/Berlin":20261225T230000`),
			"2026-12-25",
		},
		{
			"several calendars in a file",
			file("DTSTART;VALUE=DATE:20261225") + file("DTSTART;VALUE=DATE:20261226"),
			"2026-12-25 2026-12-26",
		},
		{
			"periods",
			file(
				"DTSTART:20260105T090000\nDTEND:20260105T100000\nRDATE;VALUE=PERIOD:20260201T000000/P3D,20260301T220000/20260302T020000",
			),
			"2026-01-05 2026-02-01 2026-02-02 2026-02-03 2026-03-01 2026-03-02",
		},
		{
			"a beginning before 1970",
			file("DTSTART;VALUE=DATE:19680101\nRRULE:FREQ=YEARLY;UNTIL=19720101"),
			"1970-01-01 1971-01-01 1972-01-01",
		},
		{
			"behind all years",
			file(
				"DTSTART;VALUE=DATE:25000101",
				"DTSTART;VALUE=DATE:21991231\nDTEND;VALUE=DATE:22000105",
			),
			"2199-12-31",
		},
		{"no events", file(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tt.file, "")
			require.Equal(t, tt.want, strings.Join(got.Dates, " "))
			require.Empty(t, got.EndlessUntil)
		})
	}
}

func TestEndlessRulesEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file        string
		dates             int
		first, last       string
		endlessFrom, till string
	}{
		{
			"every year",
			file("DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=YEARLY"),
			130,
			"1970-01-01",
			"2099-01-01",
			"",
			"2099-12-31",
		},
		{
			"every year since long ago",
			file("DTSTART;VALUE=DATE:19690101\nRRULE:FREQ=YEARLY"),
			130,
			"1970-01-01",
			"2099-01-01",
			"",
			"2099-12-31",
		},
		{
			"until behind the end",
			file("DTSTART;VALUE=DATE:20700101\nRRULE:FREQ=YEARLY;UNTIL=21500101"),
			30,
			"2070-01-01",
			"2099-01-01",
			"",
			"2099-12-31",
		},
		{
			"weekends",
			file("DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU"),
			4905,
			"2026-01-03",
			"2072-12-31",
			"",
			"2072-12-31",
		},
		{
			"every day of the future",
			file("DTSTART;VALUE=DATE:20300101\nRRULE:FREQ=DAILY"),
			4748,
			"2030-01-01",
			"2042-12-31",
			"",
			"2042-12-31",
		},
		{
			"weekends since long ago",
			file("DTSTART;VALUE=DATE:19700103\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU"),
			4905,
			"1970-01-03",
			"2071-12-27",
			"2025-01-01",
			"2071-12-31",
		},
		{
			"every day, and a date far away",
			file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY", "DTSTART;VALUE=DATE:21500101"),
			4750,
			"2020-02-03",
			"2150-01-01",
			"2025-01-01",
			"2037-12-31",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tt.file, "")
			//nolint:testifylint // Len would show them all
			require.Equal(t, tt.dates, len(got.Dates))
			require.Equal(t, tt.first, got.Dates[0])
			require.Equal(t, tt.last, got.Dates[tt.dates-1])
			require.Equal(t, tt.endlessFrom, got.EndlessFrom)
			require.Equal(t, tt.till, got.EndlessUntil)
		})
	}
}

// TestDatesAreThoseOfTheCalendarsZone: zones in the file apply only to calendars without a zone.
func TestDatesAreThoseOfTheCalendarsZone(t *testing.T) {
	t.Parallel()
	utc := file("DTSTART:20261224T230000Z\nDTEND:20261225T230000Z")
	tests := []struct{ name, file, zone, want string }{
		{"a day in UTC", utc, "Europe/Berlin", "2026-12-25"},
		{
			"of a file with another zone",
			strings.Replace(utc, "VERSION", "X-WR-TIMEZONE:Asia/Tokyo\r\nVERSION", 1),
			"Europe/Berlin",
			"2026-12-25",
		},
		{
			"of a file with another zone, for a calendar with none",
			strings.Replace(utc, "VERSION", "X-WR-TIMEZONE:Asia/Tokyo\r\nVERSION", 1),
			"",
			"2026-12-25 2026-12-26",
		},
		{
			"a day of another zone",
			file(
				"DTSTART;TZID=America/New_York:20261225T000000\nDTEND;TZID=America/New_York:20261226T000000",
			),
			"Europe/Berlin",
			"2026-12-25 2026-12-26",
		},
		{"a date", file("DTSTART;VALUE=DATE:20261225"), "Pacific/Kiritimati", "2026-12-25"},
		{"a time without a zone", file("DTSTART:20261225T230000"), "Asia/Tokyo", "2026-12-25"},
		{
			"a zone of the file's own",
			file("DTSTART;TZID=Home:20261225T230000"),
			"Asia/Tokyo",
			"2026-12-25",
		},
		{
			"a rule in UTC, of days that are others here",
			file("DTSTART:20251003T230000Z\nDURATION:PT30M\nRRULE:FREQ=WEEKLY;BYDAY=FR;COUNT=5"),
			"Europe/Berlin",
			"2025-10-04 2025-10-11 2025-10-18 2025-10-25 2025-11-01",
		},
		{
			"a rule in UTC, by days of the month",
			file("DTSTART:20260131T230000Z\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3"),
			"Europe/Berlin",
			"2026-02-01 2026-03-01 2026-04-01",
		},
		{
			"a rule of another zone",
			file(
				"DTSTART;TZID=America/New_York:20251003T200000\nDURATION:PT30M\nRRULE:FREQ=WEEKLY;BYDAY=FR;COUNT=3",
			),
			"Europe/Berlin",
			"2025-10-04 2025-10-11 2025-10-18",
		},
		{
			"a day without midnight, of the calendar's zone",
			file(
				"DTSTART;TZID=America/Santiago:20250831T000000\nDURATION:P1D\nRRULE:FREQ=WEEKLY;COUNT=3",
			),
			"America/Santiago",
			"2025-08-31 2025-09-07 2025-09-14",
		},
		{
			"a day without midnight, every day",
			file(
				"DTSTART;TZID=America/Havana:20250308T000000\nDTEND;TZID=America/Havana:20250309T000000\nRRULE:FREQ=DAILY;COUNT=3",
			),
			"America/Havana",
			"2025-03-08 2025-03-09 2025-03-10",
		},
		{
			"a day without midnight, half an hour",
			file(
				"DTSTART;TZID=America/Santiago:20250906T003000\nDURATION:PT15M\nRRULE:FREQ=DAILY;COUNT=2",
			),
			"America/Santiago",
			"2025-09-06 2025-09-07",
		},
		{
			"a day without midnight, as the file writes it",
			file("DTSTART;TZID=America/Santiago:20250906T000000\nRRULE:FREQ=DAILY;COUNT=2"),
			"",
			"2025-09-06 2025-09-07",
		},
		{
			"a zone of the file's own, with its rules",
			own("DTSTART;TZID=Home:20250328T213000\nDURATION:PT30M\nRRULE:FREQ=DAILY;COUNT=3"),
			"UTC",
			"2025-03-28 2025-03-29 2025-03-30",
		},
		{
			"a zone of the file's own, in its winter",
			own("DTSTART;TZID=Home:20250101T020000\nDURATION:PT30M"),
			"UTC",
			"2024-12-31",
		},
		{
			"a zone of the file's own, in its summer",
			own("DTSTART;TZID=Home:20250701T040000\nDURATION:PT30M"),
			"UTC",
			"2025-06-30",
		},
		{
			"a zone of the file's own, before it began",
			own("DTSTART;TZID=Home:19700101T040000"),
			"UTC",
			"1969-12-31 1970-01-01"[11:],
		},
		{
			"a zone of the file's own without changes",
			own("DTSTART;TZID=Fixed:20250701T040000"),
			"UTC",
			"2025-06-30",
		},
		{
			"a zone of the file's own that changed some times",
			own("DTSTART;TZID=Some:20250101T040000", "DTSTART;TZID=Some:20250701T040000"),
			"UTC",
			"2024-12-31 2025-07-01",
		},
		{
			"a zone of the file's own that has a name of IANA",
			own("DTSTART;TZID=Europe/Berlin:20250701T003000"),
			"UTC",
			"2025-06-30",
		},
		{
			"days of 23 and 25 hours",
			file(
				"DTSTART;TZID=Europe/Berlin:20260329T000000\nDTEND;TZID=Europe/Berlin:20260330T000000\nRRULE:FREQ=WEEKLY;UNTIL=20260411T000000Z",
			),
			"Europe/Berlin",
			"2026-03-29 2026-04-05",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, strings.Join(parse(t, tt.file, tt.zone).Dates, " "))
		})
	}
}

type away struct{}

func (away) Read([]byte) (int, error) { return 0, errors.New("the line is cut") }

func manyChanges(yield func(string) bool) {
	for n := range 101 {
		at := time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC).Format("20060102")
		if !yield("UID:a\nRECURRENCE-ID;RANGE=THISANDFUTURE:" + at + "\nDTSTART:" + at) {
			return
		}
	}
}

func TestParseICSRefuses(t *testing.T) {
	t.Parallel()
	never := make([]string, 4)
	for i := range never {
		never[i] = "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30"
	}
	tests := []struct{ name, file, msg string }{
		{"nothing", "", "line 1: expected BEGIN:VCALENDAR, and it is empty"},
		{
			"a rule of exceptions",
			file(
				"DTSTART;VALUE=DATE:20300101\nRRULE:FREQ=DAILY;COUNT=4\nEXRULE:FREQ=DAILY;INTERVAL=2",
			),
			"line 8: EXRULE: expected no rule of exceptions",
		},
		{
			"something else",
			"hello",
			`is not iCalendar: line 1: expected BEGIN:VCALENDAR, found "hello"`,
		},
		{"too long", strings.Repeat("x", calendar.MaxICSBytes+1), "longer than"},
		{
			"half a file",
			"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20260101",
			"line 4: expected END:VEVENT, found the end of the file",
		},
		{
			"crossed",
			"BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR\nEND:VEVENT\n",
			`line 3: expected END:VEVENT, found "END:VCALENDAR"`,
		},
		{
			"no property",
			file("SUMMARY:x\nDTSTART 20260101"),
			`line 7: at 7: expected ":" and a value, found " 20260101"`,
		},
		{
			"no parameter",
			file("DTSTART;VALUE:20260101"),
			`line 6: at 13: expected a parameter such as VALUE=DATE, found ":20260101"`,
		},
		{
			"an open quote",
			file(`DTSTART;TZID="x:20260101`),
			`line 6: at 24: expected the closing quote`,
		},
		{
			"no start",
			file("SUMMARY:Christmas"),
			`event "Christmas" that cannot be read: line 4: it has no DTSTART`,
		},
		{
			"no date",
			file("DTSTART;VALUE=DATE:20260230"),
			`line 6: DTSTART: expected a date such as 20261225 or a time such as 20261225T090000Z, found "20260230"`,
		},
		{
			"no end",
			file("DTSTART;VALUE=DATE:20260203\nDTEND:tomorrow"),
			"line 7: DTEND: expected a date",
		},
		{
			"backwards",
			file("DTSTART;VALUE=DATE:20260203\nDTEND;VALUE=DATE:20260202"),
			`line 7: DTEND: it ends before it begins: expected 20260203T000000 or later, found "20260202"`,
		},
		{
			"no duration",
			file("DTSTART;VALUE=DATE:20260203\nDURATION:P"),
			`line 7: DURATION: expected a duration such as P1D or PT2H30M, found "P"`,
		},
		{
			"no period",
			file("DTSTART;VALUE=DATE:20260203\nRDATE;VALUE=PERIOD:20260203T000000/soon"),
			`line 7: RDATE: expected a date`,
		},
		{
			"no rule",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=FOO"),
			`line 7: RRULE: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found "FOO"`,
		},
		{
			"no frequency",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:BYDAY=SA"),
			`line 7: RRULE: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found ""`,
		},
		{
			"no part",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;OFTEN"),
			`line 7: RRULE: expected parts such as FREQ=YEARLY and BYMONTH=12, found "OFTEN"`,
		},
		{
			"no weekday",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=WEEKLY;BYDAY=XX"),
			`line 7: RRULE: expected BYDAY= and weekdays such as SA,SU or 4TH or -1MO, found "BYDAY=XX"`,
		},
		{
			"no month",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=YEARLY;BYMONTH=13"),
			`line 7: RRULE: expected BYMONTH= and numbers from 1 to 12, found "BYMONTH=13"`,
		},
		{
			"no count",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;COUNT=0"),
			`line 7: RRULE: expected COUNT= and a number from 1 to 999999999, found "COUNT=0"`,
		},
		{
			"a count below nothing",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;COUNT=-5"),
			`line 7: RRULE: expected COUNT= and a number from 1 to 999999999, found "COUNT=-5"`,
		},
		{
			"no number",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;COUNT="),
			`found "COUNT="`,
		},
		{
			"two counts",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;COUNT=1,2"),
			`found "COUNT=1,2"`,
		},
		{
			"a count a second time",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;COUNT=1;COUNT=2"),
			`line 7: RRULE: expected each part once, found "COUNT=2" a second time`,
		},
		{
			"no interval",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;INTERVAL=0"),
			`line 7: RRULE: expected INTERVAL= and a number from 1 to 99999, found "INTERVAL=0"`,
		},
		{
			"an interval without bounds",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;INTERVAL=9223372036854775807"),
			"expected INTERVAL= and a number from 1 to 99999",
		},
		{
			"until the first year",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;UNTIL=00010101"),
			`line 7: RRULE: expected an UNTIL that is DTSTART (20260203) or later, found "FREQ=DAILY;UNTIL=00010101"`,
		},
		{
			"until before the beginning",
			file(
				"DTSTART;TZID=Europe/Berlin:20260203T090000\nRRULE:FREQ=DAILY;UNTIL=20260203T075959Z",
			),
			`expected an UNTIL that is DTSTART (20260203T090000) or later`,
		},
		{
			"until the day before",
			file("DTSTART:20260203T090000Z\nRRULE:FREQ=DAILY;UNTIL=20260202"),
			"expected an UNTIL that is DTSTART (20260203T090000) or later",
		},
		{
			"the very first second",
			file("DTSTART:00010101T000000\nRRULE:FREQ=YEARLY"),
			`line 7: RRULE: expected a DTSTART after 00010101T000000`,
		},
		{
			"until no day",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;UNTIL=20260230"),
			`line 7: RRULE: expected UNTIL= and a date such as 20301231 or a time such as 20301231T090000Z, found "UNTIL=20260230"`,
		},
		{
			"until and counted",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;UNTIL=20270101;COUNT=3"),
			"line 7: RRULE: expected COUNT or UNTIL and not both",
		},
		{
			"day 0",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=MONTHLY;BYMONTHDAY=1,0"),
			`expected BYMONTHDAY= and numbers from 1 to 31 or -31 to -1, found "BYMONTHDAY=1,0"`,
		},
		{
			"the 53rd Monday of a month",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=YEARLY;BYMONTH=12;BYDAY=53MO"),
			"expected numbers from 1 to 5 or -5 to -1 before weekdays",
		},
		{
			"the 0th Monday",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=MONTHLY;BYDAY=0MO"),
			`expected BYDAY= and weekdays such as SA,SU or 4TH or -1MO, found "BYDAY=0MO"`,
		},
		{
			"the first Monday of a week",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=WEEKLY;BYDAY=1MO"),
			"a number before a weekday with FREQ=YEARLY or MONTHLY only",
		},
		{
			"the first Monday of a numbered week",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO"),
			"a weekday without a number, as BYWEEKNO is there",
		},
		{
			"numbered weeks of a month",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=MONTHLY;BYWEEKNO=1"),
			"BYWEEKNO with FREQ=YEARLY only",
		},
		{
			"days of the year of a month",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=MONTHLY;BYYEARDAY=1"),
			"BYYEARDAY with FREQ=YEARLY only",
		},
		{
			"days of the month of a week",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=WEEKLY;BYMONTHDAY=1"),
			"BYMONTHDAY with another FREQ than WEEKLY",
		},
		{
			"the first of nothing",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=MONTHLY;BYSETPOS=1"),
			"BYSETPOS with another part such as BYDAY",
		},
		{
			"no first day of the week",
			file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=WEEKLY;WKST=1"),
			`expected WKST= and a weekday such as MO, found "WKST=1"`,
		},
		{
			"a change of all earlier ones",
			file(
				"UID:a\nDTSTART;VALUE=DATE:20260203",
				"UID:a\nDTSTART;VALUE=DATE:20260203\nRECURRENCE-ID;RANGE=THISANDPRIOR:20260203",
			),
			`RECURRENCE-ID: expected RANGE=THISANDFUTURE, or no RANGE, found "THISANDPRIOR"`,
		},
		{
			"a zone of its own without anything",
			strings.Replace(
				file("DTSTART;TZID=Home:20260203T000000"),
				"BEGIN:VEVENT",
				"BEGIN:VTIMEZONE\r\nTZID:Home\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT",
				1,
			),
			"line 4: expected a STANDARD or a DAYLIGHT in the VTIMEZONE, found none",
		},
		{
			"rules of which nothing is left",
			file(
				"UID:a\nDTSTART:00020101\nRRULE:FREQ=DAILY",
				"UID:a\nSTATUS:CANCELLED\nRECURRENCE-ID;RANGE=THISANDFUTURE:00020101\nDTSTART:00020101",
				"UID:a\nDTSTART:00020101\nRRULE:FREQ=DAILY",
			),
			"one of more than 1000000 occurrences and days",
		},
		{
			"many changes of all later ones",
			file(slices.Collect(manyChanges)...),
			"RECURRENCE-ID: expected at most 100 events with RANGE for one UID, found another",
		},
		{
			"a zone of its own without an offset",
			strings.Replace(own("DTSTART;TZID=Home:20260203T000000"), "TZOFFSETTO:+0300", "X:1", 1),
			"line 6: it has no TZOFFSETTO: expected one such as TZOFFSETTO:+0100",
		},
		{
			"a zone of its own with a strange offset",
			strings.Replace(own("DTSTART;TZID=Home:20260203T000000"), "+0430", "+4:30", 1),
			`TZOFFSETFROM: expected an offset such as +0100 or -033000, found "+4:30"`,
		},
		{
			"a zone of its own that never ends",
			strings.Replace(
				own("DTSTART;TZID=Home:20260203T000000"),
				"FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
				"FREQ=DAILY;COUNT=0",
				1,
			),
			`expected COUNT= and a number`,
		},
		{
			"a zone of its own that always changes",
			strings.Replace(
				own("DTSTART;TZID=Home:20260203T000000"),
				"19700329T000000\r\nTZOFFSETFROM:+0300\r\nTZOFFSETTO:+0430\r\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
				"00010102T000000\r\nTZOFFSETFROM:+0300\r\nTZOFFSETTO:+0430\r\nRRULE:FREQ=DAILY\r\nRRULE:FREQ=DAILY;INTERVAL=1",
				1,
			),
			"one of more than 1000000 occurrences",
		},
		{
			"every second",
			file("DTSTART:20260203T000000Z\nRRULE:FREQ=SECONDLY"),
			"expected FREQ=YEARLY",
		},
		{
			"hours",
			file("DTSTART:20260203T000000Z\nRRULE:FREQ=DAILY;BYHOUR=1,2"),
			`expected a rule without hours, minutes and seconds, found "BYHOUR=1,2"`,
		},
		{
			"too many dates",
			file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY;COUNT=6000"),
			"more than 5000 dates",
		},
		{
			"a very long event",
			file("DTSTART;VALUE=DATE:20200203\nDTEND;VALUE=DATE:29990101"),
			"more than 5000 dates",
		},
		{
			"many long events",
			file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY\nDURATION:P4000D"),
			"one of more than 1000000 occurrences and days",
		},
		{
			"nearly too many dates, and no place for a rule",
			file(
				"DTSTART;VALUE=DATE:19800101\nDURATION:P4990D",
				"DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY",
			),
			"more than 5000 dates up to the end of this year",
		},
		{"rules that never match", file(never...), "which never does"},
		{
			"rules that hardly ever match",
			file(slices.Repeat(
				[]string{"DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29"},
				30,
			)...),
			"one of more than 1000000 occurrences and days",
		},
		{
			"rules with few of the years",
			file(slices.Repeat([]string{
				"DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=YEARLY;BYYEARDAY=-366;BYDAY=MO;BYWEEKNO=1",
			}, 1000)...),
			"one of more than 1000000 occurrences and days",
		},
		{
			"rules with many positions",
			file(slices.Repeat([]string{
				"DTSTART;VALUE=DATE:19700101\n" +
					"RRULE:FREQ=YEARLY;BYDAY=MO;BYSETPOS=1,300,301,302,303,304,305,306,307,308,309,310",
			}, 1000)...),
			"one of more than 1000000 occurrences and days",
		},
		{
			"a rule with too many positions",
			file("DTSTART;VALUE=DATE:20260101\n" +
				"RRULE:FREQ=YEARLY;BYDAY=MO;BYSETPOS=1,2,3,4,5,6,7,8,9,10,11,12,13"),
			"expected BYSETPOS= and at most 12 numbers, found",
		},
		{
			"components within each other",
			"BEGIN:VCALENDAR\n" + strings.Repeat("BEGIN:A\n", 100_000),
			"line 11: expected at most 10 components within each other, found another",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := calendar.ParseICS(strings.NewReader(tt.file), in(""))
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			require.Equal(t, "body", e.Field)
			require.ErrorContains(t, err, tt.msg)
		})
	}
	_, err := calendar.ParseICS(away{}, in(""))
	require.ErrorContains(t, err, "the line is cut")
}

// TestUnknownZonesAreNamed checks that a zone is named where it would matter.
func TestUnknownZonesAreNamed(t *testing.T) {
	t.Parallel()
	text := file(
		"DTSTART;TZID=Mars/Base:20300101T230000\nEXDATE;TZID=Mars/Base:20300101T230000",
		"DTSTART;TZID=Europe/Berlin:20300101T230000\nRDATE;TZID=Venus:20300101T230000",
		"DTSTART;TZID=Pluto;VALUE=DATE:20300101",
	)
	for zone, want := range map[string][]string{"Asia/Tokyo": {"Mars/Base", "Venus"}, "": nil} {
		got, err := calendar.ParseICS(strings.NewReader(text), in(zone))
		require.NoError(t, err)
		require.Equal(t, want, got.UnknownZones, zone)
	}
}

// TestManyZonesAreReadAtOnce has 25 million pairs of a zone and an event. Looked at one by one they
// would take a minute.
func TestManyZonesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	var zones, events []string
	for i := range 5_000 {
		zones = append(zones, fmt.Sprintf("BEGIN:VTIMEZONE\r\nTZID:%d\r\nEND:VTIMEZONE\r\n", i))
		events = append(events, fmt.Sprintf("DTSTART;TZID=x%d:20260101T000000", i))
	}
	text := strings.Replace(
		file(events...), "BEGIN:VEVENT", strings.Join(zones, "")+"BEGIN:VEVENT", 1,
	)
	got, err := calendar.ParseICS(strings.NewReader(text), in(""))
	require.NoError(t, err)
	require.Equal(t, []string{"2026-01-01"}, got.Dates)
}

func FuzzParseICS(f *testing.F) {
	f.Add(
		file(
			"DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYDAY=-1MO;BYSETPOS=2;COUNT=10\nEXDATE:20261225,20271225T000000Z",
		),
	)
	f.Add(
		file("DTSTART;TZID=Europe/Berlin:20261225T090000\nDURATION:P1DT2H\nRECURRENCE-ID:20261225"),
	)
	f.Add(
		own(
			"DTSTART;TZID=Home:20261225T090000\nRRULE:FREQ=MONTHLY;BYDAY=5MO,-5FR;INTERVAL=2",
			"RECURRENCE-ID;RANGE=THISANDFUTURE:20261225T060000Z\nDTSTART;TZID=Some:20261225",
		),
	)
	f.Add(
		file(
			"DTSTART:20261225T090000Z\nRRULE:FREQ=YEARLY;BYWEEKNO=53,-53;BYYEARDAY=366,-366;BYDAY=MO;BYMONTHDAY=31;UNTIL=20301231",
		),
	)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := calendar.ParseICS(strings.NewReader(text), in("Europe/Berlin"))
		if err != nil {
			require.Equal(t, timer.CodeInvalid, timer.CodeOf(err))
			return
		}
		require.NoError(t, calendar.Check(&timer.Calendar{Name: "x", ExcludedDates: got.Dates}))
	})
}
