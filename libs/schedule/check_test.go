package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const hour = timer.Duration(time.Hour)
	far := time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)
	many := strings.Split(strings.Repeat("@daily,", timer.MaxSpecs)+"@daily", ",")
	tests := []struct {
		name       string
		s          timer.Schedule
		field, msg string // empty means valid
	}{
		{"cron", cronOf("Europe/Berlin", "*/5 * * * *", "@every 1h30m"), "", ""},
		{"at", timer.Schedule{Kind: timer.KindAt, At: &at}, "", ""},
		{
			"delay",
			timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(time.Second)},
			"",
			"",
		},
		{"years that are over", cronOf("", "0 0 0 1 1 * 1999"), "", ""},
		{
			"no kind",
			timer.Schedule{},
			"schedule.kind",
			"expected \"cron\", \"interval\", \"fixed_delay\", \"at\" or \"delay\"",
		},
		{
			"an unknown kind",
			timer.Schedule{Kind: "often"},
			"schedule.kind",
			"expected \"cron\", \"interval\", \"fixed_delay\", \"at\" or \"delay\"",
		},
		{
			"cron with at",
			timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}, At: &at},
			"schedule.at",
			"leave it out",
		},
		{
			"cron with delay",
			timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}, Delay: 1},
			"schedule.delay",
			"leave it out",
		},
		{
			"at with specs",
			timer.Schedule{Kind: timer.KindAt, At: &at, Specs: []string{"@daily"}},
			"schedule.specs",
			"leave it out",
		},
		{
			"at without at",
			timer.Schedule{Kind: timer.KindAt},
			"schedule.at",
			"expected an instant such as \"2030-01-31T09:00:00Z\"",
		},
		{
			"at too far",
			timer.Schedule{Kind: timer.KindAt, At: &far},
			"schedule.at",
			`expected an instant from 1970 to 2199, found "`,
		},
		{"no delay", timer.Schedule{Kind: timer.KindDelay}, "schedule.delay", "90s"},
		{
			"a negative delay",
			timer.Schedule{Kind: timer.KindDelay, Delay: -1},
			"schedule.delay",
			`such as "90s", found -1ns`,
		},
		{
			"too long a delay",
			timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(schedule.MaxDelay + 1)},
			"schedule.delay",
			"expected a duration longer than 0s and up to 10 years (3650d)",
		},
		{"no specs", cronOf(""), "schedule.specs", "at least one"},
		{"too many specs", cronOf("", many...), "schedule.specs", "at most 16"},
		{
			"too long a spec",
			cronOf("", strings.Repeat("1", timer.MaxSpecLen+1)),
			"schedule.specs[0]",
			"at 256: expected the end",
		},
		{"an unknown zone", cronOf("Mars/Olympus", "@daily"), "schedule.time_zone", "IANA"},
		{"the host's zone", cronOf("Local", "@daily"), "schedule.time_zone", "IANA"},
		{"a zone that is a path", cronOf("../etc/passwd", "@daily"), "schedule.time_zone", "IANA"},
		{
			"an empty spec",
			cronOf("", "@daily", " "),
			"schedule.specs[1]",
			"at 1: expected a cron expression",
		},
		{
			"four fields",
			cronOf("", "* * * *"),
			"schedule.specs[0]",
			"at 7: expected 5 fields (minute first), 6 (second first) or 7 (year last) and not 4, found the end",
		},
		{
			"eight fields",
			cronOf("", "* * * * * * * *"),
			"schedule.specs[0]",
			"at 14: expected the end after 7 fields",
		},
		{
			"out of range",
			cronOf("", "60 * * * *"),
			"schedule.specs[0]",
			"at 0: expected a minute from 0 to 59, found \"60\"",
		},
		{
			"weekday 8",
			cronOf("", "* * * * 8"),
			"schedule.specs[0]",
			"at 8: expected a weekday from 0 to 7 or sun to sat, found \"8\"",
		},
		{
			"weekday 0-8",
			cronOf("", "* * * * 6-8"),
			"schedule.specs[0]",
			"at 10: expected a weekday",
		},
		{
			"a step of nothing",
			cronOf("", "*/0 * * * *"),
			"schedule.specs[0]",
			"at 2: expected a step of at least 1",
		},
		{
			"an empty place",
			cronOf("", "1,,2 * * * *"),
			"schedule.specs[0]",
			"at 2: expected a minute",
		},
		{"only a comma", cronOf("", "* * * * ,"), "schedule.specs[0]", "at 8: expected a weekday"},
		{
			"a half star",
			cronOf("", "*-5 * * * *"),
			"schedule.specs[0]",
			"at 1: expected \"/\", \",\" or the end of the field, found \"-5\"",
		},
		{
			"a zone in the spec",
			cronOf("", "TZ=UTC * * * * *"),
			"schedule.specs[0]",
			"at 0: expected a cron expression without a time zone, as that is the field time_zone",
		},
		{"a zone and nothing else", cronOf("", "CRON_TZ=UTC"), "schedule.specs[0]", "time_zone"},
		{
			"an unknown descriptor",
			cronOf("", "@reboot"),
			"schedule.specs[0]",
			"at 0: expected @yearly",
		},
		{
			"@every of nothing",
			cronOf("", "@every"),
			"schedule.specs[0]",
			"at 6: expected a duration",
		},
		{
			"@every of parts of a second",
			cronOf("", "@every 1500ms"),
			"schedule.specs[0]",
			"at 7: expected whole seconds",
		},
		{
			"@every too short",
			cronOf("", "@every 10ms"),
			"schedule.specs[0]",
			"at 7: expected at least 1s",
		},
		{
			"@every backwards",
			cronOf("", "@every -1m"),
			"schedule.specs[0]",
			"at 7: expected at least 1s",
		},
		{
			"@every too long",
			cronOf("", "@every 99999h"),
			"schedule.specs[0]",
			"at 7: expected at most 10 years",
		},
		{"a year out of range", cronOf("", "0 0 0 1 1 * 2200"), "schedule.specs[0]", "2199"},
		{
			"years backwards",
			cronOf("", "0 0 0 1 1 * 2030-2028"),
			"schedule.specs[0]",
			"at 17: expected the end of the range, from 2030 to 2199, found \"2028\"",
		},
		{"a bad step of years", cronOf("", "0 0 0 1 1 * */0"), "schedule.specs[0]", "step"},
		{
			"a day that never exists",
			cronOf("", "@daily", "0 0 30 2 *"),
			"schedule.specs[1]",
			"never matches",
		},
		{
			"a leap day that never exists",
			cronOf("Asia/Tehran", "0 0 0 29 2 * 2100"),
			"schedule.specs[0]",
			"never matches",
		},
		{
			"L in the weekday alone",
			cronOf("", "0 0 * * L"),
			"schedule.specs[0]",
			"at 8: expected a weekday",
		},
		{
			"W behind a range",
			cronOf("", "0 0 1-5W * *"),
			"schedule.specs[0]",
			`at 7: expected "/", "," or the end of the field, found "W"`,
		},
		{
			"W of no date",
			cronOf("", "0 0 32W * *"),
			"schedule.specs[0]",
			"at 4: expected a day of the month from 1 to 31, found \"32W\"",
		},
		{
			"L-31",
			cronOf("", "0 0 L-31 * *"),
			"schedule.specs[0]",
			"at 6: expected days before the month's last, from 1 to 30, found \"31\"",
		},
		{
			"a sixth Friday",
			cronOf("", "0 0 * * 5#6"),
			"schedule.specs[0]",
			"at 10: expected which of the month's such weekdays, from 1 to 5, found \"6\"",
		},
		{
			"nothing behind #",
			cronOf("", "0 0 * * fri#"),
			"schedule.specs[0]",
			"at 12: expected which of the month's such weekdays, from 1 to 5, found the end",
		},
		{
			"H with half a range",
			cronOf("", "H(1-5 * * * *"),
			"schedule.specs[0]",
			`at 5: expected ")", found the end of the field`,
		},
		{
			"H of a year",
			cronOf("", "0 0 0 1 1 * H"),
			"schedule.specs[0]",
			"at 12: expected a year from 1970 to 2199, found \"H\"",
		},
		{
			"a full name",
			cronOf("", "0 0 * * monday"),
			"schedule.specs[0]",
			`at 11: expected "-", "/", "," or the end of the field, found "day"`,
		},
		{
			"a name of another field",
			cronOf("", "0 0 * mon *"),
			"schedule.specs[0]",
			"at 6: expected a month from 1 to 12 or jan to dec, found \"mon\"",
		},
		{
			"a step that gets nowhere",
			cronOf("", "*/60 * * * *"),
			"schedule.specs[0]",
			"at 2: expected a step of at most 59, as a longer one never gets to a second value (@every and interval have any distance), found \"60\"",
		},
		{
			"a step of hours that gets nowhere",
			cronOf("", "0 0/24 * * *"),
			"schedule.specs[0]",
			"at 4: expected a step of at most 23",
		},
		{
			"a step of a range that gets nowhere",
			cronOf("", "0 0 5-10/31 * *"),
			"schedule.specs[0]",
			"at 9: expected a step of at most 30",
		},
		{
			"a step of months that gets nowhere",
			cronOf("", "0 0 1 1/12 *"),
			"schedule.specs[0]",
			"at 8: expected a step of at most 11",
		},
		{
			"a step of weekdays that gets nowhere",
			cronOf("", "0 0 * * */7"),
			"schedule.specs[0]",
			"at 10: expected a step of at most 6",
		},
		{
			"a step of years that gets nowhere",
			cronOf("", "0 0 0 1 1 * */230"),
			"schedule.specs[0]",
			"at 14: expected a step of at most 229",
		},
		{
			"a step of H that gets nowhere",
			cronOf("", "H/60 * * * *"),
			"schedule.specs[0]",
			"at 2: expected a step of at most 59",
		},
		{
			"a step without bounds",
			cronOf("", "0-59/9223372036854775808 * * * *"),
			"schedule.specs[0]",
			"at 5: expected a step of at most 59",
		},
		{
			"years behind the last",
			cronOf("", "0 0 0 1 1 * 2030-2300"),
			"schedule.specs[0]",
			"at 17: expected a year up to 2199, with which schedules end, found \"2300\"",
		},
		{
			"an instant behind the last year",
			timer.Schedule{Kind: timer.KindAt, At: &far},
			"schedule.at",
			"expected an instant from 1970 to 2199, found \"2500-01-01T00:00:00Z\": schedules end with the year 2199",
		},
		{
			"a sign before a number",
			cronOf("", "+5 * * * *"),
			"schedule.specs[0]",
			"at 0: expected a minute from 0 to 59, found \"+5\"",
		},
		{"@every of days", cronOf("", "@every 1d12h"), "", ""},
		{
			"@every of too many days",
			cronOf("", "@every 4000d"),
			"schedule.specs[0]",
			"at 7: expected at most 10 years (3650d)",
		},
		{
			"L-0W",
			cronOf("", "0 0 L-0W * *"),
			"schedule.specs[0]",
			"at 6: expected days before the month's last, from 1 to 30, found \"0W\"",
		},
		{
			"something behind L-1W",
			cronOf("", "0 0 L-1W-2 * *"),
			"schedule.specs[0]",
			`at 8: expected "," or the end of the field, found "-2"`,
		},
		{
			"a comma at the end",
			cronOf("", "0 1, * * *"),
			"schedule.specs[0]",
			"at 4: expected an hour from 0 to 23, found the end of the field",
		},
		{
			"bytes that are no text",
			cronOf("", "0 \xff * * *"),
			"schedule.specs[0]",
			`at 2: expected an hour from 0 to 23, found "\xff"`,
		},
		{
			"two descriptors",
			cronOf("", "@daily @daily"),
			"schedule.specs[0]",
			"at 7: expected the end after @daily",
		},
		{
			"two durations",
			cronOf("", "@every 1s 2s"),
			"schedule.specs[0]",
			"at 10: expected the end after one duration",
		},
		{
			"no such day in any such month",
			cronOf("", "0 0 31 4,6,9,11 *"),
			"schedule.specs[0]",
			"never matches",
		},
		{
			"a fifth Saturday of a February that is short",
			cronOf("", "0 0 0 ? 2 6#5 2026-2030"),
			"schedule.specs[0]",
			"never matches",
		},
		{
			"a gap policy of its own",
			timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}, Gap: "jump"},
			"schedule.gap",
			`expected "shift" or "skip", found "jump"`,
		},
		{
			"an overlap policy of its own",
			timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}, Overlap: "last"},
			"schedule.overlap",
			`expected "first", "second" or "both", found "last"`,
		},
		{
			"a gap of an interval",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Gap: "skip"},
			"schedule.gap",
			`belongs to kind "cron"`,
		},
		{
			"interval",
			timer.Schedule{
				Kind:   timer.KindInterval,
				Every:  hour,
				Phase:  hour - 1e6,
				Anchor: &at,
				Zone:   "Asia/Tokyo",
			},
			"",
			"",
		},
		{
			"interval of nothing",
			timer.Schedule{Kind: timer.KindInterval},
			"schedule.every",
			"expected a duration such as \"90s\"",
		},
		{
			"too short an interval",
			timer.Schedule{Kind: timer.KindInterval, Every: 1e6},
			"schedule.every",
			"expected a duration from 1s",
		},
		{
			"a broken interval",
			timer.Schedule{Kind: timer.KindInterval, Every: 1e9 + 1},
			"schedule.every",
			"whole milliseconds",
		},
		{
			"a phase as long as the interval",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Phase: hour},
			"schedule.phase",
			"less than every (1h0m0s)",
		},
		{
			"a phase of a fixed delay",
			timer.Schedule{Kind: timer.KindFixedDelay, Every: hour, Phase: 1},
			"schedule.phase",
			`belongs to kind "interval"`,
		},
		{
			"an anchor too far",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Anchor: &far},
			"schedule.anchor",
			`expected an instant from 1970 to 2199, found "`,
		},
		{"fixed delay", timer.Schedule{Kind: timer.KindFixedDelay, Every: hour}, "", ""},
		{
			"a window backwards",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, StartAt: &at, EndAt: &at},
			"schedule.end_at",
			fmt.Sprintf(
				"expected an instant later than start_at (%[1]q), found %[1]q",
				at.Format(time.RFC3339),
			),
		},
		{
			"a window of a one-shot",
			timer.Schedule{Kind: timer.KindAt, At: &at, StartAt: &at},
			"schedule.start_at",
			`belongs to kind "cron", "interval" or "fixed_delay"`,
		},
		{
			"fires below nothing",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, MaxFires: -1},
			"schedule.max_fires",
			"found -1",
		},
		{
			"too much jitter",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Jitter: 25 * hour},
			"schedule.jitter",
			"from 0s to 24h0m0s",
		},
		{
			"negative jitter",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Jitter: -1},
			"schedule.jitter",
			"found -1ns",
		},
		{
			"calendars",
			timer.Schedule{
				Kind:      timer.KindInterval,
				Every:     hour,
				Calendars: []string{"a", "b"},
				Excluded:  "next_allowed",
			},
			"",
			"",
		},
		{
			"a calendar without name",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Calendars: []string{"a", ""}},
			"schedule.calendars[1]",
			"found nothing",
		},
		{
			"a calendar twice",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Calendars: []string{"a", "a"}},
			"schedule.calendars[1]",
			"second time",
		},
		{
			"nine calendars",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Calendars: make([]string, 9)},
			"schedule.calendars",
			"at most 8",
		},
		{
			"excluded without calendars",
			timer.Schedule{Kind: timer.KindInterval, Every: hour, Excluded: "skip"},
			"schedule.excluded",
			"expected nothing without calendars",
		},
		{
			"excluded somehow",
			timer.Schedule{
				Kind:      timer.KindInterval,
				Every:     hour,
				Calendars: []string{"a"},
				Excluded:  "next",
			},
			"schedule.excluded",
			`expected "skip", "next_allowed" or "previous_allowed", found "next"`,
		},
		{
			"a fixed delay moved back",
			timer.Schedule{
				Kind:      timer.KindFixedDelay,
				Every:     hour,
				Calendars: []string{"a"},
				Excluded:  "previous_allowed",
			},
			"schedule.excluded",
			"cannot end before it began",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := schedule.Check(&tt.s)
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			require.Equal(t, tt.field, e.Field)
			require.Contains(t, e.Msg, tt.msg)
		})
	}
}
