package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// start is where benchmarks start: 2026-01-01.
const start = int64(1_767_225_600_000)

// BenchmarkNext repeats a search from the same instant. Every spec must take less than 20 µs,
// however far the search goes.
func BenchmarkNext(b *testing.B) {
	const berlin = "Europe/Berlin"
	for _, bb := range []struct {
		name, zone string
		specs      []string
	}{
		{"every second, UTC", "", []string{"* * * * * *"}},
		{"every minute", berlin, []string{"* * * * *"}},
		{"daily, UTC", "", []string{"59 23 * * *"}},
		{"daily", berlin, []string{"59 23 * * *"}},
		{"yearly", berlin, []string{"0 0 1 1 *"}},
		{"workdays", berlin, []string{"0 9 * * 1-5"}},
		{"last workday", berlin, []string{"0 18 LW * *"}},
		{"fifth Friday", berlin, []string{"0 0 * * 5#5"}},
		{"leap day", berlin, []string{"0 0 29 2 *"}},
		{"fifth Saturday of February", berlin, []string{"0 0 * 2 6#5"}},
		{"leap day of 2196", berlin, []string{"0 0 0 29 2 ? 2196"}},
		{"last second of 2199", berlin, []string{"59 59 23 31 12 ? 2199"}},
		{"fifth Saturday of February 2180 and later", berlin, []string{"0 0 0 ? 2 6#5 2180-2199"}},
		{"over", berlin, []string{"0 0 0 1 1 ? 1999"}},
		{"never", berlin, []string{"0 0 30 2 *"}},
		{"only in gaps, skipped", berlin, []string{"30 2 ? 3 0L"}},
		{"sixteen specs", berlin, []string{
			"0 1 1 * *", "0 2 2 * *", "0 3 3 * *", "0 4 4 * *", "0 5 5 * *", "0 6 6 * *", "0 7 7 * *", "0 8 8 * *",
			"0 1 L * *", "0 2 LW * *", "0 3 15W * *", "0 4 * * 5#5", "0 5 * * 5L", "0 6 29 2 *", "0 7 * 2 6#5", "@every 90s",
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			s := cronOf(bb.zone, bb.specs...)
			if bb.name == "only in gaps, skipped" {
				s.Gap = timer.GapSkip
			}
			p, err := schedule.Parse(s, schedule.Inputs{})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				p.Next(start, 0)
			}
		})
	}
}

// BenchmarkNextUnderCalendars is Next across a weekend.
func BenchmarkNextUnderCalendars(b *testing.B) {
	saturday := time.Date(2026, 5, 16, 0, 0, 0, 0, time.UTC).UnixMilli() - 1
	for _, spec := range []string{"0 10 * * *", "*/5 * * * *", "* * * * * *", "0 10 1 * *"} {
		for _, policy := range []timer.ExcludedPolicy{timer.ExcludedSkip, timer.ExcludedNext, timer.ExcludedPrevious} {
			b.Run(spec+" "+string(policy), func(b *testing.B) {
				s, in := under(cronOf("Europe/Berlin", spec), policy, weekdays(), hours())
				p, err := schedule.Parse(s, in)
				require.NoError(b, err)
				b.ReportAllocs()
				for b.Loop() {
					p.Next(saturday, 0)
				}
			})
		}
	}
}

// BenchmarkNoCommonTime is the cost, without a cache, of finding that calendars never allow any
// time of a schedule. It is below a millisecond, in one zone or several.
func BenchmarkNoCommonTime(b *testing.B) {
	at := func(zone, from, to string) timer.Calendar {
		return timer.Calendar{
			Name:         zone + from,
			Zone:         zone,
			AllowedTimes: []timer.TimeRange{{From: from, To: to}},
		}
	}
	for _, bb := range []struct {
		name, spec string
		calendars  []timer.Calendar
	}{
		{"spec and calendar", "30 12 * * *", []timer.Calendar{hours()}},
		{"two calendars of one zone", "* * * * *", []timer.Calendar{at("", "09:00", "10:00"), at("", "10:00", "11:00")}},
		{"two calendars of two zones", "* * * * *", []timer.Calendar{at("", "09:00", "10:00"), at("Asia/Tokyo", "10:00", "11:00")}},
		{"spec and calendar of another zone", "30 12 * * *", []timer.Calendar{at("Asia/Tokyo", "09:00", "17:00")}},
	} {
		for _, policy := range []timer.ExcludedPolicy{timer.ExcludedSkip, timer.ExcludedNext, timer.ExcludedPrevious} {
			if policy != timer.ExcludedSkip && strings.HasPrefix(bb.name, "spec") {
				continue // a moved instant exists
			}
			b.Run(bb.name+" "+string(policy), func(b *testing.B) {
				s, in := under(cronOf("Europe/Berlin", bb.spec), policy, bb.calendars...)
				b.ReportAllocs()
				for b.Loop() {
					p, err := schedule.Parse(s, in)
					require.NoError(b, err)
					require.Equal(b, timer.NeverMS, p.Next(start, 0))
				}
			})
		}
	}
}

// BenchmarkExpandHour computes the 3600 instants of an hour of an every-second cron in less than 1
// ms.
func BenchmarkExpandHour(b *testing.B) {
	for _, zone := range []string{"", "Europe/Berlin"} {
		b.Run(zone, func(b *testing.B) {
			p, err := schedule.Parse(cronOf(zone, "* * * * * *"), schedule.Inputs{})
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for at := p.Next(start, 0); at <= start+3_600_000; at = p.Next(at, 0) {
					n++
				}
				if n != 3600 {
					b.Fatal(n)
				}
			}
		})
	}
}

// BenchmarkCheck is the cost of finding that a spec never matches: below 1 ms.
func BenchmarkCheck(b *testing.B) {
	for _, spec := range []string{"0 0 30 2 *", "0 0 0 ? 2 6#5 2026-2030", "0 0 31 4,6,9,11 *"} {
		b.Run(spec, func(b *testing.B) {
			s := cronOf("Europe/Berlin", spec)
			require.ErrorContains(b, schedule.Check(&s), "never matches")
			b.ReportAllocs()
			for b.Loop() {
				_ = schedule.Check(&s)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, spec := range []string{"*/5 1-3 * * mon-fri", "H H(1-5)/2 LW,15W jan-jun/2 fri#2,sunL"} {
		b.Run(spec, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = schedule.Parse(cronOf("Europe/Berlin", spec), schedule.Inputs{})
			}
		})
	}
}

// BenchmarkPreviewOfNoCommonTime previews a schedule that is never due: well below 50 ms.
func BenchmarkPreviewOfNoCommonTime(b *testing.B) {
	nine := timer.Calendar{
		Name:         "nine",
		AllowedTimes: []timer.TimeRange{{From: "09:00", To: "10:00"}},
	}
	ten := timer.Calendar{
		Name:         "ten",
		AllowedTimes: []timer.TimeRange{{From: "10:00", To: "11:00"}},
	}
	for _, zone := range []string{"", "Asia/Tokyo"} {
		for _, policy := range []timer.ExcludedPolicy{timer.ExcludedSkip, timer.ExcludedNext, timer.ExcludedPrevious} {
			b.Run(zone+" "+string(policy), func(b *testing.B) {
				ten.Zone = zone
				s, in := under(cronOf("", "* * * * *"), policy, nine, ten)
				for b.Loop() {
					_, _ = schedule.Preview(b.Context(), s, in, start, start, 1)
				}
			})
		}
	}
}

func BenchmarkPreview(b *testing.B) {
	s, in := under(cronOf("Europe/Berlin", "0 9 * * *"), timer.ExcludedNext, weekdays())
	b.ReportAllocs()
	for b.Loop() {
		_, _ = schedule.Preview(b.Context(), s, in, start, start, 100)
	}
}
