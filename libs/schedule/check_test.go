package schedule_test

import (
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
	far := time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)
	many := strings.Split(strings.Repeat("@daily,", timer.MaxSpecs)+"@daily", ",")
	tests := []struct {
		name       string
		s          timer.Schedule
		field, msg string // empty: it passes
	}{
		{"cron", cronOf("Europe/Berlin", "*/5 * * * *", "@every 1h30m"), "", ""},
		{"at", timer.Schedule{Kind: timer.KindAt, At: &at}, "", ""},
		{"delay", timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(time.Second)}, "", ""},
		{"years that are over", cronOf("", "0 0 0 1 1 * 1999"), "", ""},
		{"no kind", timer.Schedule{}, "schedule.kind", "is required"},
		{"an unknown kind", timer.Schedule{Kind: "often"}, "schedule.kind", "not a kind"},
		{"cron with at", timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}, At: &at}, "schedule.at", "leave it out"},
		{"cron with delay", timer.Schedule{Kind: timer.KindCron, Specs: []string{"@daily"}, Delay: 1}, "schedule.delay", "leave it out"},
		{"at with specs", timer.Schedule{Kind: timer.KindAt, At: &at, Specs: []string{"@daily"}}, "schedule.specs", "leave it out"},
		{"at without at", timer.Schedule{Kind: timer.KindAt}, "schedule.at", "is required"},
		{"at too far", timer.Schedule{Kind: timer.KindAt, At: &far}, "schedule.at", "outside the years"},
		{"no delay", timer.Schedule{Kind: timer.KindDelay}, "schedule.delay", "90s"},
		{"a negative delay", timer.Schedule{Kind: timer.KindDelay, Delay: -1}, "schedule.delay", "90s"},
		{"too long a delay", timer.Schedule{Kind: timer.KindDelay, Delay: timer.Duration(schedule.MaxDelay + 1)}, "schedule.delay", "10 years"},
		{"no specs", cronOf(""), "schedule.specs", "at least one"},
		{"too many specs", cronOf("", many...), "schedule.specs", "at most 16"},
		{"too long a spec", cronOf("", strings.Repeat("1", timer.MaxSpecLen+1)), "schedule.specs[0]", "at 256: expected the end"},
		{"an unknown zone", cronOf("Mars/Olympus", "@daily"), "schedule.time_zone", "IANA"},
		{"the host's zone", cronOf("Local", "@daily"), "schedule.time_zone", "IANA"},
		{"a zone that is a path", cronOf("../etc/passwd", "@daily"), "schedule.time_zone", "IANA"},
		{"an empty spec", cronOf("", "@daily", " "), "schedule.specs[1]", "at 1: expected a cron expression"},
		{"four fields", cronOf("", "* * * *"), "schedule.specs[0]", "at 7: expected 5 fields (minute first), 6 (second first) or 7 (year last) and not 4, found the end"},
		{"eight fields", cronOf("", "* * * * * * * *"), "schedule.specs[0]", "at 14: expected the end after 7 fields"},
		{"out of range", cronOf("", "60 * * * *"), "schedule.specs[0]", "at 0: expected a minute from 0 to 59, found \"60\""},
		{"weekday 8", cronOf("", "* * * * 8"), "schedule.specs[0]", "at 8: expected a weekday from 0 to 7 or sun to sat, found \"8\""},
		{"weekday 0-8", cronOf("", "* * * * 6-8"), "schedule.specs[0]", "at 10: expected a weekday"},
		{"a step of nothing", cronOf("", "*/0 * * * *"), "schedule.specs[0]", "at 2: expected a step of at least 1"},
		{"an empty place", cronOf("", "1,,2 * * * *"), "schedule.specs[0]", "at 2: expected a minute"},
		{"only a comma", cronOf("", "* * * * ,"), "schedule.specs[0]", "at 8: expected a weekday"},
		{"a half star", cronOf("", "*-5 * * * *"), "schedule.specs[0]", "at 1: expected \"/\", \",\" or the end of the field, found \"-5\""},
		{"a zone in the spec", cronOf("", "TZ=UTC * * * * *"), "schedule.specs[0]", "at 0: expected a cron expression without a time zone, as that is the field time_zone"},
		{"a zone and nothing else", cronOf("", "CRON_TZ=UTC"), "schedule.specs[0]", "time_zone"},
		{"an unknown descriptor", cronOf("", "@reboot"), "schedule.specs[0]", "at 0: expected @yearly"},
		{"@every of nothing", cronOf("", "@every"), "schedule.specs[0]", "at 6: expected a duration"},
		{"@every of parts of a second", cronOf("", "@every 1500ms"), "schedule.specs[0]", "at 7: expected whole seconds"},
		{"@every too short", cronOf("", "@every 10ms"), "schedule.specs[0]", "at 7: expected at least 1s"},
		{"@every backwards", cronOf("", "@every -1m"), "schedule.specs[0]", "at 7: expected at least 1s"},
		{"@every too long", cronOf("", "@every 99999h"), "schedule.specs[0]", "at 7: expected at most 10 years"},
		{"a year out of range", cronOf("", "0 0 0 1 1 * 2200"), "schedule.specs[0]", "2199"},
		{"years backwards", cronOf("", "0 0 0 1 1 * 2030-2028"), "schedule.specs[0]", "at 17: expected the end of the range, from 2030 to 2199, found \"2028\""},
		{"a bad step of years", cronOf("", "0 0 0 1 1 * */0"), "schedule.specs[0]", "step"},
		{"a day that never comes", cronOf("", "@daily", "0 0 30 2 *"), "schedule.specs[1]", "never matches"},
		{"a leap day that never comes", cronOf("Asia/Tehran", "0 0 0 29 2 * 2100"), "schedule.specs[0]", "never matches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			err := schedule.Check(&tt.s)
			require.Less(t, time.Since(start), time.Second, "in bounded time")
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
