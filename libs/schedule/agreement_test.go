package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAgreesWithQuartz compares L, W, #, wrapping ranges and the rest of Quartz's language. Quartz
// requires a ? in one of the day fields. It numbers weekdays from 1, so the test uses names. It
// ignores steps after ranges of names. In zones, only times of day without clock changes are
// compared, because Quartz has no comparable rule for the others.
func TestAgreesWithQuartz(t *testing.T) {
	t.Parallel()
	dir := oracles(t)
	r := rand.New(rand.NewPCG(11, 12))
	day := func() string { return strings.Fields("SUN MON TUE WED THU FRI SAT")[r.IntN(7)] }
	questions := make([]question, 4000)
	for i := range questions {
		q := question{zone: "UTC", fromMS: someInstant(r), count: 6}
		hour := starred(r, 0, 23, 0.4)
		if r.IntN(2) == 0 {
			q.zone = []string{"Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "America/St_Johns", "Pacific/Auckland"}[r.IntN(6)]
			hour = list(r, 4, 22)
		}
		date, weekday := "?", "?"
		second, minute := starred(r, 0, 59, 0.1), starred(r, 0, 59, 0.3)
		if r.IntN(4) == 0 {
			minute = wrapped(r, 0, 59)
		}
		if q.zone == "UTC" && r.IntN(4) == 0 {
			hour = wrapped(r, 0, 23)
		}
		kind := r.IntN(11)
		// Quartz keeps the time of day it had reached if such a day moves it to another one.
		if kind < 7 {
			second, minute, hour = strconv.Itoa(
				r.IntN(60),
			), strconv.Itoa(
				r.IntN(60),
			), strconv.Itoa(
				4+r.IntN(19),
			)
		}
		switch kind {
		case 0:
			date = "L"
		case 1:
			date = fmt.Sprintf("L-%d", 1+r.IntN(27))
		case 2:
			date = "LW"
		case 3: // starting between a Sunday and its Monday, Quartz misses the Monday
			date = fmt.Sprintf("%dW", 1+r.IntN(28))
			from := time.UnixMilli(q.fromMS).UTC()
			q.fromMS = time.Date(from.Year(), from.Month(), 0, 0, 0, 0, 0, time.UTC).UnixMilli()
		case 4: // likewise where the Monday may be the last of the month
			date = fmt.Sprintf("L-%dW", 1+r.IntN(27))
			from := time.UnixMilli(q.fromMS).UTC()
			q.fromMS = time.Date(from.Year(), from.Month(), 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		case 5:
			weekday = fmt.Sprintf("%s#%d", day(), 1+r.IntN(5))
		case 6:
			weekday = day() + "L"
		case 7:
			weekday = day() + "," + day()
		case 8:
			weekday = []string{"MON-FRI", "FRI-MON", "SAT-TUE", "WED-SUN"}[r.IntN(4)]
		case 9:
			date = wrapped(r, 1, 31)
		default:
			date = starred(r, 1, 31, 0.5)
		}
		month := "*"
		if r.IntN(3) == 0 {
			month = []string{"JAN,JUN", "FEB", "2", "3-10/2", "MAR-SEP", "4,8,12", "*/5", "NOV-FEB", "9-4/2"}[r.IntN(9)]
		}
		q.spec = strings.Join([]string{second, minute, hour, date, month, weekday}, " ")
		if r.IntN(10) == 0 {
			q.spec += fmt.Sprintf(" %d-%d/%d", 1998+r.IntN(5), 2012+r.IntN(60), 1+r.IntN(4))
		}
		questions[i] = q
	}
	java := filepath.Join(dir, "java")
	ask(t, questions, func(q question) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d", q.spec, q.zone, q.fromMS, q.count)
	}, "java", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(java, "classes")+string(os.PathListSeparator)+filepath.Join(java, "lib", "*"), "Oracle")
}

// TestAgreesWithPython compares with cronsim and croniter. cronsim has our rules for gaps and
// overlaps: shift and first, and every match if the hour is starred. It is compared in zones.
// croniter is compared in UTC, for seconds, years, and days that match either day field.
//
// The test avoids known differences: cronsim also takes a starred minute for a rhythm, and a
// stepped star in a day field for a plain star.
func TestAgreesWithPython(t *testing.T) {
	t.Parallel()
	dir := oracles(t)
	r := rand.New(rand.NewPCG(13, 14))
	zones := []string{
		"Europe/Berlin",
		"Europe/Dublin",
		"America/New_York",
		"Australia/Sydney",
		"Pacific/Chatham",
		"Pacific/Auckland",
		"Antarctica/Troll",
		"UTC",
		"Australia/Lord_Howe",
		"America/Santiago",
		"America/Havana",
		"America/Sao_Paulo",
		"Asia/Beirut",
		"Asia/Tehran",
		"Asia/Amman",
	}
	// whole is for zones that change at midnight or by half an hour: cronsim is wrong there within
	// a starred hour.
	const whole = 8
	questions := make([]question, 3000)
	for i := range questions {
		q := question{
			library: "cronsim",
			zone:    zones[r.IntN(len(zones))],
			fromMS:  someInstant(r),
			count:   5,
		}
		table := changes(t, q.zone)
		if len(table) > 0 && r.IntN(2) == 0 { // from one day before a clock change
			q.fromMS = table[r.IntN(len(table))] - r.Int64N(36*3_600_000)/60_000*60_000
		}
		dates := []string{"*", "*", "*", "L", "LW", list(r, 1, 31)}[r.IntN(6)]
		weekdays := []string{"*", "*", "*", list(r, 0, 6), "mon-fri", fmt.Sprintf("%d#%d", r.IntN(8), 1+r.IntN(5)), fmt.Sprintf("%dL", r.IntN(8)), "5-7", "sun,3"}[r.IntN(9)]
		months := []string{"*", "*", "*", list(r, 1, 12), "feb", "mar-oct"}[r.IntN(6)]
		switch r.IntN(3) {
		case 0:
			if i := slices.Index(zones, q.zone); i >= whole {
				q.zone = zones[i%whole]
			}
			q.spec = strings.Join(
				[]string{
					starred(r, 0, 59, 0.4),
					[]string{"*", "*/2", "*/5"}[r.IntN(3)],
					dates,
					months,
					weekdays,
				},
				" ",
			)
		case 1:
			q.spec = strings.Join(
				[]string{list(r, 0, 59), list(r, 0, 23), dates, months, weekdays},
				" ",
			)
		default:
			q.library, q.zone = "croniter", "UTC"
			q.spec = strings.Join(
				[]string{
					starred(r, 0, 59, 0.1),
					starred(r, 0, 59, 0.2),
					starred(r, 0, 23, 0.3),
					list(r, 1, 28),
					months,
					list(r, 0, 6),
				},
				" ",
			)
			if r.IntN(4) == 0 {
				q.spec += fmt.Sprintf(" %d-%d", 2000+r.IntN(5), 2030+r.IntN(60))
			}
		}
		questions[i] = q
	}
	ask(t, questions, func(q question) string {
		return fmt.Sprintf("%s\t%s\t%s\t%d\t%d", q.library, q.spec, q.zone, q.fromMS, q.count)
	}, filepath.Join(dir, "python", "bin", "python"), filepath.Join("oracle", "oracle.py"))
}

// changes returns the clock changes of a zone between oracleFrom and oracleTo.
func changes(t *testing.T, name string) (out []int64) {
	t.Helper()
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	for at := time.UnixMilli(oracleFrom).In(loc); at.UnixMilli() < oracleTo; {
		_, end := at.ZoneBounds()
		switch {
		case end.IsZero():
			return out
		case end.UnixMilli() >= oracleTo:
			return out
		case end.After(at):
			out = append(out, end.UnixMilli())
			at = end
		default: // an error of ZoneBounds: see package zone
			at = at.Add(time.Hour)
		}
	}
	return out
}
