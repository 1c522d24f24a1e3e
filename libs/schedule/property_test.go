package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// field is a random cron field and the set it means, made together, so that the test has an answer of its own.
type field struct {
	text string
	star bool
	set  map[int]bool
}

func randomField(r *rand.Rand, low, high int, starOdds float64) field {
	f := field{set: map[int]bool{}}
	if r.Float64() < starOdds {
		f.text, f.star = "*", true
		for v := low; v <= high; v++ {
			f.set[v] = true
		}
		return f
	}
	var parts []string
	for range 1 + r.IntN(3) {
		from := low + r.IntN(high-low+1)
		to := from + r.IntN(high-from+1)
		by := 1 + r.IntN(5)
		switch r.IntN(4) {
		case 0:
			parts, to, by = append(parts, fmt.Sprint(from)), from, 1
		case 1:
			parts, by = append(parts, fmt.Sprintf("%d-%d", from, to)), 1
		case 2:
			parts = append(parts, fmt.Sprintf("%d-%d/%d", from, to, by))
		default:
			parts, from, to, by = append(parts, fmt.Sprintf("*/%d", by+1)), low, high, by+1
		}
		for v := from; v <= to; v += by {
			f.set[v] = true
		}
	}
	f.text = strings.Join(parts, ",")
	return f
}

type fields struct{ second, minute, hour, dom, month, dow field }

func (f fields) String() string {
	return strings.Join([]string{f.second.text, f.minute.text, f.hour.text, f.dom.text, f.month.text, f.dow.text}, " ")
}

func (f fields) matches(at time.Time) bool {
	dom := f.dom.set[at.Day()]
	dow := f.dow.set[int(at.Weekday())] || at.Weekday() == time.Sunday && f.dow.set[7]
	day := dom || dow
	if f.dom.star || f.dow.star {
		day = dom && dow
	}
	return day && f.second.set[at.Second()] && f.minute.set[at.Minute()] && f.hour.set[at.Hour()] && f.month.set[int(at.Month())]
}

// TestNextIsWhatTheWallClockShows walks second by second through stretches that hold the odd nights of odd zones, and asks for the same
// instants.
func TestNextIsWhatTheWallClockShows(t *testing.T) {
	t.Parallel()
	const length = 6 * 3600
	nights := []struct {
		zone string
		from time.Time
	}{
		{"UTC", time.Date(2028, 2, 28, 21, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 10, 24, 21, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 4, 12, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 10, 3, 13, 0, 0, 0, time.UTC)},
		{"Africa/Cairo", time.Date(2026, 4, 23, 19, 0, 0, 0, time.UTC)},
		{"America/St_Johns", time.Date(2006, 10, 29, 0, 0, 0, 0, time.UTC)},
		{"Pacific/Apia", time.Date(2011, 12, 30, 7, 0, 0, 0, time.UTC)}, // a day that does not exist
		{"Asia/Kathmandu", time.Date(1985, 12, 31, 16, 0, 0, 0, time.UTC)},
	}
	for i, night := range nights {
		t.Run(fmt.Sprint(night.zone, " ", night.from.Year(), " ", night.from.Month()), func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(night.zone)
			require.NoError(t, err)
			r := rand.New(rand.NewPCG(uint64(i), 7))
			for range 25 {
				f := fields{
					randomField(r, 0, 59, 0.2), randomField(r, 0, 59, 0.3), randomField(r, 0, 23, 0.3),
					randomField(r, 1, 31, 0.6), randomField(r, 1, 12, 0.8), randomField(r, 0, 7, 0.6),
				}
				p := parse(t, cronOf(night.zone, f.String()))
				from := night.from.Unix()
				next := p.Next(from*1000-1, 0)
				for s := from; s < from+length; s++ {
					if f.matches(time.Unix(s, 0).In(loc)) {
						require.Equal(t, s*1000, next, "%q in %s: missed %s", f, night.zone, time.Unix(s, 0).In(loc))
						next = p.Next(next, 0)
					}
				}
				require.GreaterOrEqual(t, next, (from+length)*1000, "%q in %s: too much", f, night.zone)
			}
		})
	}
}

// TestNextAgreesWithRobfig compares with the library where both have an answer: in UTC, within its five years.
func TestNextAgreesWithRobfig(t *testing.T) {
	t.Parallel()
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := fields{
			randomField(r, 0, 59, 0.1), randomField(r, 0, 59, 0.2), randomField(r, 0, 23, 0.2),
			randomField(r, 1, 31, 0.3), randomField(r, 1, 12, 0.3), randomField(r, 0, 6, 0.4),
		}
		theirs, err := parser.Parse(f.String())
		require.NoError(t, err)
		ours := parse(t, cronOf("", f.String()))
		at := time.UnixMilli(r.Int64N(6e12)).UTC()
		for range 3 {
			want := theirs.Next(at)
			if want.IsZero() {
				break
			}
			require.Equal(t, want, time.UnixMilli(ours.Next(at.UnixMilli(), 0)).UTC(), "%q after %s", f, at)
			at = want
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"* * * * *", "*/5 1-3,7 ? jan mon-7/2 2030-2040/3", "@every 90s", "@weekly", "TZ=", "CRON_TZ=UTC 1", "0 0 30 2 *", "@every",
		"0 0 0 29 2 * 2096/4", "* * * * 6-7/999999999999999999", "0-59/9223372036854775807 * * * *",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s := cronOf("Europe/Berlin", spec)
		p, err := schedule.Parse(s, schedule.Inputs{})
		if err != nil {
			require.Equal(t, timer.CodeInvalid, timer.CodeOf(err))
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

func BenchmarkNext(b *testing.B) {
	for _, bb := range []struct{ name, zone, spec string }{
		{"everySecond", "", "* * * * * *"},
		{"everyMinute", "", "* * * * *"},
		{"dailyUTC", "", "59 23 * * *"},
		{"dailyBerlin", "Europe/Berlin", "59 23 * * *"},
		{"leapDay", "", "0 0 29 2 *"},
		{"never", "Europe/Berlin", "0 0 30 2 *"},
		{"every", "", "@every 90s"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p, err := schedule.Parse(timer.Schedule{Kind: timer.KindCron, Specs: []string{bb.spec}, Zone: bb.zone}, schedule.Inputs{})
			require.NoError(b, err)
			b.ReportAllocs()
			at := int64(1_767_225_600_000)
			for b.Loop() {
				if next := p.Next(at, 0); next != timer.NeverMS {
					at = next
				}
				if at > 4_000_000_000_000 {
					at = 1_767_225_600_000
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := schedule.Parse(timer.Schedule{Kind: timer.KindCron, Specs: []string{"*/5 1-3 * * mon-fri"}, Zone: "Europe/Berlin"}, schedule.Inputs{})
		require.NoError(b, err)
	}
}
