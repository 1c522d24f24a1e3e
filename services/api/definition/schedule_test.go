package definition_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
)

// TestSchedulesComeBack checks that a schedule that was shown is the same when it comes back, also
// where the default zone is another one by then.
func TestSchedulesComeBack(t *testing.T) {
	t.Parallel()
	at, hour := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), timer.Duration(time.Hour)
	for _, zone := range []string{"", "Asia/Tokyo"} {
		for _, calendars := range [][]string{nil, {"office"}} {
			for _, s := range []timer.Schedule{
				{Kind: timer.KindCron, Specs: []string{"0 9 * * *"}},
				{Kind: timer.KindInterval, Every: hour},
				{Kind: timer.KindFixedDelay, Every: hour},
				{Kind: timer.KindAt, At: &at},
				{Kind: timer.KindDelay, Delay: hour},
			} {
				s.Zone, s.Calendars = zone, calendars
				shown := definition.ShowSchedule(&s)
				var in input.BodyReader
				got := (&definition.Reader{Zone: "Europe/Berlin"}).ReadSchedule(&shown, &in)
				require.Empty(t, in.Errs, shown)
				d := timer.Definition{Schedule: got}
				definition.DropDefaults(&d)
				require.Equal(t, s, d.Schedule)
			}
		}
	}
}
