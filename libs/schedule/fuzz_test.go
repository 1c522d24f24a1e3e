package schedule_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

var syntaxError = regexp.MustCompile(`(?s)^at \d+: expected .+, found .+$`)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"* * * * *", "*/5 1-3,7 ? jan mon-7/2 2030-2040/3", "@every 90s", "@weekly", "TZ=", "CRON_TZ=UTC 1", "0 0 30 2 *", "@every",
		"0 0 0 29 2 * 2096/4", "* * * * 6-7/999999999999999999", "0-59/9223372036854775807 * * * *", "H H(2-4) H/7 * H(1-5)/2",
		"0 0 L * *", "0 0 LW,L-3,15W * *", "0 0 * * fri#2,5L,7#5", "0 0 * * 5-0", "0 0 * * 7-2", "0 0 31W 2,4 *", "22-2/3 58-1 30-2 nov-feb fri-mon",
		"0 0 L-1W,LW,L-30w * *", "*/60 * * * *", "+5 * * * *", "@every 1d12h", "*-5,,1 * * * *", "\x00\xff * * * *",
	} {
		f.Add(s, uint64(1), "Europe/Berlin")
	}
	f.Add("30 0 * * *", uint64(9), "America/Santiago")
	f.Fuzz(func(t *testing.T, spec string, seed uint64, zone string) {
		s := cronOf(zone, spec)
		p, err := schedule.Parse(s, schedule.Inputs{Timer: timer.ID(seed & uint64(timer.MaxID))})
		if err != nil {
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			if e.Field == "schedule.specs[0]" {
				require.Regexp(t, syntaxError, e.Msg)
			}
			require.Error(t, schedule.Check(&s), "Check passes what Parse refuses")
			return
		}
		at, since := int64(1_767_225_600_000), int64(1_767_225_600_000)
		for range 3 {
			next := p.Next(at, since)
			require.Greater(t, next, at)
			at = next
			if at == timer.NeverMS {
				break
			}
		}
	})
}
