package calendar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// parse reads a file in November 2026.
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
		{"lower case", "begin:vcalendar\nbegin:vevent\ndtstart;value=date:20241225\nrrule:freq=yearly;count=2\nend:vevent\nend:vcalendar\n", "2024-12-25 2025-12-25"},
		{"a byte order mark", "\ufeff" + file("DTSTART;VALUE=DATE:20261225"), "2026-12-25"},
		{"quoted parameters", file(`DTSTART;X-A="a:b;c,d",e;TZID="Europe/Berlin":20261225T230000`), "2026-12-25"},
		{"several calendars in a file", file("DTSTART;VALUE=DATE:20261225") + file("DTSTART;VALUE=DATE:20261226"), "2026-12-25 2026-12-26"},
		{"periods", file("DTSTART:20260105T090000\nDTEND:20260105T100000\nRDATE;VALUE=PERIOD:20260201T000000/P3D,20260301T220000/20260302T020000"), "2026-01-05 2026-02-01 2026-02-02 2026-02-03 2026-03-01 2026-03-02"},
		{"a beginning before 1970", file("DTSTART;VALUE=DATE:19680101\nRRULE:FREQ=YEARLY;UNTIL=19720101"), "1970-01-01 1971-01-01 1972-01-01"},
		{"behind all years", file("DTSTART;VALUE=DATE:25000101", "DTSTART;VALUE=DATE:21991231\nDTEND;VALUE=DATE:22000105"), "2199-12-31"},
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
		{"every year", file("DTSTART;VALUE=DATE:19700101\nRRULE:FREQ=YEARLY"), 130, "1970-01-01", "2099-01-01", "", "2099-12-31"},
		{"every year since long ago", file("DTSTART;VALUE=DATE:19690101\nRRULE:FREQ=YEARLY"), 130, "1970-01-01", "2099-01-01", "", "2099-12-31"},
		{"until behind the end", file("DTSTART;VALUE=DATE:20700101\nRRULE:FREQ=YEARLY;UNTIL=21500101"), 30, "2070-01-01", "2099-01-01", "", "2099-12-31"},
		{"weekends", file("DTSTART;VALUE=DATE:20260103\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU"), 4905, "2026-01-03", "2072-12-31", "2025-01-01", "2072-12-31"},
		{"weekends since long ago", file("DTSTART;VALUE=DATE:19700103\nRRULE:FREQ=WEEKLY;BYDAY=SA,SU"), 4905, "1970-01-03", "2071-12-27", "2025-01-01", "2071-12-31"},
		{"every day, and a date far away", file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY", "DTSTART;VALUE=DATE:21500101"), 4750, "2020-02-03", "2150-01-01", "2025-01-01", "2037-12-31"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tt.file, "")
			require.Equal(t, tt.dates, len(got.Dates)) //nolint:testifylint // Len would show them all
			require.Equal(t, tt.first, got.Dates[0])
			require.Equal(t, tt.last, got.Dates[tt.dates-1])
			require.Equal(t, tt.endlessFrom, got.EndlessFrom)
			require.Equal(t, tt.till, got.EndlessUntil)
		})
	}
}

// TestDatesAreThoseOfTheCalendarsZone: what the file says of zones is for calendars that have none.
func TestDatesAreThoseOfTheCalendarsZone(t *testing.T) {
	t.Parallel()
	utc := file("DTSTART:20261224T230000Z\nDTEND:20261225T230000Z")
	tests := []struct{ name, file, zone, want string }{
		{"a day in UTC", utc, "Europe/Berlin", "2026-12-25"},
		{"of a file with another zone", strings.Replace(utc, "VERSION", "X-WR-TIMEZONE:Asia/Tokyo\r\nVERSION", 1), "Europe/Berlin", "2026-12-25"},
		{"of a file with another zone, for a calendar with none", strings.Replace(utc, "VERSION", "X-WR-TIMEZONE:Asia/Tokyo\r\nVERSION", 1), "", "2026-12-25 2026-12-26"},
		{"a day of another zone", file("DTSTART;TZID=America/New_York:20261225T000000\nDTEND;TZID=America/New_York:20261226T000000"), "Europe/Berlin", "2026-12-25 2026-12-26"},
		{"a date", file("DTSTART;VALUE=DATE:20261225"), "Pacific/Kiritimati", "2026-12-25"},
		{"a time without a zone", file("DTSTART:20261225T230000"), "Asia/Tokyo", "2026-12-25"},
		{"a zone of the file's own", file("DTSTART;TZID=Home:20261225T230000"), "Asia/Tokyo", "2026-12-25"},
		{"days of 23 and 25 hours", file("DTSTART;TZID=Europe/Berlin:20260329T000000\nDTEND;TZID=Europe/Berlin:20260330T000000\nRRULE:FREQ=WEEKLY;UNTIL=20260411T000000Z"), "Europe/Berlin", "2026-03-29 2026-04-05"},
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

func TestParseICSRefuses(t *testing.T) {
	t.Parallel()
	never := make([]string, 4)
	for i := range never {
		never[i] = "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30"
	}
	tests := []struct{ name, file, msg string }{
		{"nothing", "", "line 1: expected BEGIN:VCALENDAR, and it is empty"},
		{"something else", "hello", `is not iCalendar: line 1: expected BEGIN:VCALENDAR, found "hello"`},
		{"too long", strings.Repeat("x", calendar.MaxICSBytes+1), "longer than"},
		{"half a file", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20260101", "line 4: expected END:VEVENT, found the end of the file"},
		{"crossed", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VCALENDAR\nEND:VEVENT\n", `line 3: expected END:VEVENT, found "END:VCALENDAR"`},
		{"no property", file("SUMMARY:x\nDTSTART 20260101"), `line 7: at 7: expected ":" and a value, found " 20260101"`},
		{"no parameter", file("DTSTART;VALUE:20260101"), `line 6: at 13: expected a parameter such as VALUE=DATE, found ":20260101"`},
		{"an open quote", file(`DTSTART;TZID="x:20260101`), `line 6: at 24: expected the closing quote`},
		{"no start", file("SUMMARY:Christmas"), `event "Christmas" that cannot be read: line 4: it has no DTSTART`},
		{"no date", file("DTSTART;VALUE=DATE:20260230"), `line 6: DTSTART: expected a date such as 20261225 or a time such as 20261225T090000Z, found "20260230"`},
		{"no end", file("DTSTART;VALUE=DATE:20260203\nDTEND:tomorrow"), "line 7: DTEND: expected a date"},
		{"backwards", file("DTSTART;VALUE=DATE:20260203\nDTEND;VALUE=DATE:20260202"), `line 7: DTEND: it ends before it begins: expected 20260203T000000 or later, found "20260202"`},
		{"no duration", file("DTSTART;VALUE=DATE:20260203\nDURATION:P"), `line 7: DURATION: expected a duration such as P1D or PT2H30M, found "P"`},
		{"no period", file("DTSTART;VALUE=DATE:20260203\nRDATE;VALUE=PERIOD:20260203T000000/soon"), `line 7: RDATE: expected a date`},
		{"no rule", file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=FOO"), `line 7: RRULE: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found "FOO"`},
		{"no frequency", file("DTSTART;VALUE=DATE:20260203\nRRULE:BYDAY=SA"), `line 7: RRULE: expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found ""`},
		{"no part", file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=DAILY;OFTEN"), `line 7: RRULE: expected parts such as FREQ=YEARLY and BYMONTH=12, found "OFTEN"`},
		{"no weekday", file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=WEEKLY;BYDAY=XX"), `line 7: RRULE: expected BYDAY= and weekdays such as SA,SU or 4TH or -1MO, found "BYDAY=XX"`},
		{"no month", file("DTSTART;VALUE=DATE:20260203\nRRULE:FREQ=YEARLY;BYMONTH=13"), `line 7: RRULE: expected a rule such as`},
		{"every second", file("DTSTART:20260203T000000Z\nRRULE:FREQ=SECONDLY"), "expected FREQ=YEARLY"},
		{"hours", file("DTSTART:20260203T000000Z\nRRULE:FREQ=DAILY;BYHOUR=1,2"), `expected a rule without hours, minutes and seconds, found "BYHOUR=1,2"`},
		{"too many dates", file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY;COUNT=6000"), "more than 5000 dates"},
		{"a very long event", file("DTSTART;VALUE=DATE:20200203\nDTEND;VALUE=DATE:29990101"), "more than 5000 dates"},
		{"many long events", file("DTSTART;VALUE=DATE:20200203\nRRULE:FREQ=DAILY\nDURATION:P4000D"), "one of more than 1000000 occurrences and days"},
		{"nearly too many dates, and no place for a rule", file("DTSTART;VALUE=DATE:19800101\nDURATION:P4990D", "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY"), "more than 5000 dates up to the end of this year"},
		{"rules that never match", file(never...), "which never does"},
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

func FuzzParseICS(f *testing.F) {
	f.Add(file("DTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY;BYDAY=-1MO;BYSETPOS=2;COUNT=10\nEXDATE:20261225,20271225T000000Z"))
	f.Add(file("DTSTART;TZID=Europe/Berlin:20261225T090000\nDURATION:P1DT2H\nRECURRENCE-ID:20261225"))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := calendar.ParseICS(strings.NewReader(text), in("Europe/Berlin"))
		if err != nil {
			require.Equal(t, timer.CodeInvalid, timer.CodeOf(err))
			return
		}
		require.NoError(t, calendar.Check(&timer.Calendar{Name: "x", ExcludedDates: got.Dates}))
	})
}
