package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// field is a random cron field and its set of values, generated together, so that the test has its
// own answer.
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
	return strings.Join(
		[]string{f.second.text, f.minute.text, f.hour.text, f.dom.text, f.month.text, f.dow.text},
		" ",
	)
}

func (f fields) matches(at time.Time) bool {
	dom := f.dom.set[at.Day()]
	dow := f.dow.set[int(at.Weekday())] || at.Weekday() == time.Sunday && f.dow.set[7]
	day := dom || dow
	if f.dom.star || f.dow.star {
		day = dom && dow
	}
	return day && f.second.set[at.Second()] && f.minute.set[at.Minute()] && f.hour.set[at.Hour()] &&
		f.month.set[int(at.Month())]
}

// everyHour reports whether the hour field is * or */n.
func (f fields) everyHour() bool {
	return f.hour.text == "*" ||
		strings.HasPrefix(f.hour.text, "*/") && !strings.Contains(f.hour.text, ",")
}

// model computes the due instants in [from, to) second by second, using only package time and the
// rules of doc.go.
func (f fields) model(
	loc *time.Location,
	gap timer.GapPolicy,
	overlap timer.OverlapPolicy,
	from, to int64,
) []int64 {
	const margin = 30 * 3600 // longer than any shift
	wall := func(s int64) time.Time {
		_, offset := time.Unix(s, 0).In(loc).Zone()
		return time.Unix(s+int64(offset), 0).UTC() // the local time
	}
	passes := map[int64][]int64{}
	due := map[int64]bool{}
	last := wall(from - margin - 1)
	for s := from - margin; s < to+margin; s++ {
		now := wall(s)
		for droppedByGap := last.Add(time.Second); droppedByGap.Before(now); droppedByGap = droppedByGap.Add(time.Second) {
			if !f.everyHour() && gap != timer.GapSkip && f.matches(droppedByGap) {
				due[s] = true
			}
		}
		last = now
		if f.matches(now) {
			passes[now.Unix()] = append(passes[now.Unix()], s)
		}
	}
	for _, at := range passes {
		switch {
		case f.everyHour() || overlap == timer.OverlapBoth:
		case overlap == timer.OverlapSecond:
			at = at[len(at)-1:]
		default:
			at = at[:1]
		}
		for _, s := range at {
			due[s] = true
		}
	}
	var out []int64
	for s := range due {
		if s >= from && s < to {
			out = append(out, s*1000)
		}
	}
	slices.Sort(out)
	return out
}

// TestNextMatchesAModel compares Next with a search second by second, through unusual nights of
// unusual zones.
func TestNextMatchesAModel(t *testing.T) {
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
		// a missing day.
		{"Pacific/Apia", time.Date(2011, 12, 30, 7, 0, 0, 0, time.UTC)},
		{"Asia/Kathmandu", time.Date(1985, 12, 31, 16, 0, 0, 0, time.UTC)},
		{"Antarctica/Troll", time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)}, // two hours
		{"Antarctica/Troll", time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC)},
		{"America/Santiago", time.Date(2026, 9, 6, 2, 0, 0, 0, time.UTC)}, // no midnight
	}
	policies := []struct {
		gap     timer.GapPolicy
		overlap timer.OverlapPolicy
	}{{"", ""}, {timer.GapSkip, timer.OverlapBoth}, {timer.GapShift, timer.OverlapSecond}, {timer.GapSkip, timer.OverlapFirst}}
	for i, night := range nights {
		t.Run(
			fmt.Sprint(night.zone, " ", night.from.Year(), " ", night.from.Month()),
			func(t *testing.T) {
				t.Parallel()
				loc, err := time.LoadLocation(night.zone)
				require.NoError(t, err)
				r := rand.New(rand.NewPCG(uint64(i), 7))
				for n := range 12 {
					f := fields{
						randomField(
							r,
							0,
							59,
							0.2,
						),
						randomField(r, 0, 59, 0.3),
						randomField(r, 0, 23, 0.3),
						randomField(
							r,
							1,
							31,
							0.6,
						),
						randomField(r, 1, 12, 0.8),
						randomField(r, 0, 7, 0.6),
					}
					s := cronOf(night.zone, f.String())
					s.Gap, s.Overlap = policies[n%len(policies)].gap, policies[n%len(policies)].overlap
					p := parse(t, s)
					from := night.from.Unix()
					var got []int64
					for at := p.Next(from*1000-1, 0); at < (from+length)*1000; at = p.Next(at, 0) {
						got = append(got, at)
					}
					require.Equal(
						t,
						f.model(loc, s.Gap, s.Overlap, from, from+length),
						got,
						"%q in %s, gap %q, overlap %q",
						f,
						night.zone,
						s.Gap,
						s.Overlap,
					)
				}
			},
		)
	}
}
