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
		{"too long a spec", cronOf("", strings.Repeat("1", timer.MaxSpecLen+1)), "schedule.specs[0]", "at most 256"},
		{"an unknown zone", cronOf("Mars/Olympus", "@daily"), "schedule.time_zone", "IANA"},
		{"the host's zone", cronOf("Local", "@daily"), "schedule.time_zone", "IANA"},
		{"a zone that is a path", cronOf("../etc/passwd", "@daily"), "schedule.time_zone", "IANA"},
		{"an empty spec", cronOf("", "@daily", " "), "schedule.specs[1]", "empty"},
		{"four fields", cronOf("", "* * * *"), "schedule.specs[0]", "4 fields"},
		{"eight fields", cronOf("", "* * * * * * * *"), "schedule.specs[0]", "8 fields"},
		{"out of range", cronOf("", "60 * * * *"), "schedule.specs[0]", "above maximum"},
		{"weekday 8", cronOf("", "* * * * 8"), "schedule.specs[0]", "above maximum"},
		{"weekday 0-8", cronOf("", "* * * * 6-8"), "schedule.specs[0]", "above maximum"},
		{"a step of nothing", cronOf("", "*/0 * * * *"), "schedule.specs[0]", "step"},
		{"an empty place", cronOf("", "1,,2 * * * *"), "schedule.specs[0]", "empty place"},
		{"only a comma", cronOf("", "* * * * ,"), "schedule.specs[0]", "empty place"},
		{"a half star", cronOf("", "*-5 * * * *"), "schedule.specs[0]", "mixes"},
		{"a zone in the spec", cronOf("", "TZ=UTC * * * * *"), "schedule.specs[0]", "zone"},
		{"a zone and nothing else", cronOf("", "CRON_TZ=UTC"), "schedule.specs[0]", "zone"},
		{"an unknown descriptor", cronOf("", "@reboot"), "schedule.specs[0]", "unrecognized descriptor"},
		{"@every of nothing", cronOf("", "@every"), "schedule.specs[0]", "not a duration"},
		{"@every of parts of a second", cronOf("", "@every 1500ms"), "schedule.specs[0]", "whole seconds"},
		{"@every too short", cronOf("", "@every 10ms"), "schedule.specs[0]", "shortest"},
		{"@every backwards", cronOf("", "@every -1m"), "schedule.specs[0]", "shortest"},
		{"@every too long", cronOf("", "@every 99999h"), "schedule.specs[0]", "longest"},
		{"a year out of range", cronOf("", "0 0 0 1 1 * 2200"), "schedule.specs[0]", "2199"},
		{"years backwards", cronOf("", "0 0 0 1 1 * 2030-2028"), "schedule.specs[0]", "end before"},
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
