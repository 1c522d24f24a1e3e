package importer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

// TestCronJobsKeepTheirInstants compares the instants of imported CronJobs with those of the package
// that Kubernetes uses, around changes of clocks.
func TestCronJobsKeepTheirInstants(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Africa/Cairo", "UTC"} {
		place, err := time.LoadLocation(zone)
		require.NoError(t, err)
		for _, spec := range []string{
			"30 2 * * *", "30 1 * * *", "0 3 * * *", "0 2 * * *", "0 0 * * *", "15,45 1-3 * * *",
			"*/5 * * * *", "0 * * * *", "10 */2 * * *", "*/20 2 * * *", "*/20 1-2 * * SUN",
			"30 2 25 * 0", "@hourly", "@daily", "0 1-23/2 * * *", "30 2,3 * 3,10,11 *",
		} {
			r := read(t, "kubernetes", fmt.Sprintf(
				`{"kind":"CronJob","metadata":{"name":"a"},"spec":{"schedule":%q,"timeZone":%q}}`,
				spec, zone,
			))
			text := func(field string) string {
				value, _ := at(t, r, "schedule."+field).(string)
				return value
			}
			ours, err := schedule.Parse(timer.Schedule{
				Kind: timer.KindCron, Specs: []string{spec}, Zone: text("time_zone"),
				Gap: timer.GapPolicy(text("gap")), Overlap: timer.OverlapPolicy(text("overlap")),
			}, schedule.Inputs{})
			require.NoError(t, err)
			theirs, err := cron.ParseStandard(spec)
			require.NoError(t, err)
			for _, month := range []time.Month{time.March, time.October} {
				next := time.Date(2026, month, 1, 12, 0, 0, 0, place)
				for end := next.AddDate(0, 2, 0); next.Before(end); {
					was := next
					next = theirs.Next(was)
					require.Equal(t, next.UnixMilli(), ours.Next(was.UnixMilli(), 0),
						"%s in %s after %s", spec, zone, was)
				}
			}
		}
	}
}

// TestCronJobsKeepTheirAttempts checks the attempts of a Job, also where it leaves the limit out.
func TestCronJobsKeepTheirAttempts(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]any{
		`{}`:                                7., // the first, and six repeats
		`{"backoffLimit":0}`:                1.,
		`{"backoffLimit":4}`:                5.,
		`{"backoffLimitPerIndex":1}`:        nil, // it has no limit of the whole Job
		`{"backoffLimit":2,"suspend":true}`: 3.,
	} {
		r := read(t, "kubernetes", `{"kind":"CronJob","metadata":{"name":"a"},"spec":{
			"schedule":"0 9 * * *","jobTemplate":{"spec":`+spec+`}}}`)
		require.Equal(t, want, at(t, r, "retry.attempts"), spec)
	}
}

// TestZonesOfCronJobs checks that the zone of a schedule is that of the timer, wherever it is written,
// and that a schedule without one is said to be in the zone of the cluster.
func TestZonesOfCronJobs(t *testing.T) {
	t.Parallel()
	const note = "it used the time zone of kube-controller-manager"
	for _, c := range []struct {
		spec, timeZone string
		zone           any
		notes          string
	}{
		{"CRON_TZ=Asia/Tokyo 0 9 * * *", "", "Asia/Tokyo", ""},
		{"TZ=Asia/Tokyo  0 9 * * *", "", "Asia/Tokyo", ""},
		{"TZ= 0 9 * * *", "", "UTC", ""},
		{"0 9 * * *", "Asia/Tokyo", "Asia/Tokyo", ""},
		{"0 9 * * *", "", nil, note},
	} {
		all, err := importer.Read("kubernetes", fmt.Appendf(
			nil, `{"kind":"CronJob","metadata":{"name":"a"},"spec":{"schedule":%q,"timeZone":%q}}`,
			c.spec, c.timeZone,
		), importer.Options{App: "shop", URL: program})
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Empty(t, all[0].Refused, c.spec)
		require.Equal(t, []any{"0 9 * * *"}, at(t, all[0], "schedule.specs"), c.spec)
		require.Equal(t, c.zone, at(t, all[0], "schedule.time_zone"), c.spec)
		notes := strings.Join(all[0].Notes, "\n")
		if c.notes == "" {
			require.NotContains(t, notes, note, c.spec)
		}
		require.Contains(t, notes, c.notes, c.spec)
	}
}

// TestWildcardsOfCrontabsFollowTheClock checks that lines which cron runs by the clock, as their
// minute begins with *, do so here: not in a gap, and twice in an overlap.
func TestWildcardsOfCrontabsFollowTheClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec, zone   string
		gap, overlap any
	}{
		{"*/15 2 * * *", "Europe/Berlin", "skip", "both"},
		{"* 1-3 * * *", "Europe/Berlin", "skip", "both"},
		{"0 */6,23 * * *", "Europe/Berlin", "skip", "both"},
		{"*/15 2 * * *", "UTC", nil, nil},
		{"30 2 * * *", "Europe/Berlin", nil, nil}, // cron moves it out of a gap, and runs it once
		{"0 1-23/2 * * *", "Europe/Berlin", nil, nil},
		{"*/15 * * * *", "Europe/Berlin", nil, nil}, // a rhythm here
		{"0 */2 * * *", "Europe/Berlin", nil, nil},
		{"@daily", "Europe/Berlin", nil, nil},
	} {
		all, err := importer.Read("crontab",
			[]byte("CRON_TZ="+c.zone+"\n"+c.spec+" curl https://example.com/\n"), someOptions)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, c.gap, at(t, all[0], "schedule.gap"), c.spec)
		require.Equal(t, c.overlap, at(t, all[0], "schedule.overlap"), c.spec)
	}
}
