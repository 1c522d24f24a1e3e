package schedule_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// question is what an independent implementation is asked, and what this package answers.
type question struct {
	library, spec, zone string // library: of the Python program
	fromMS              int64
	count               int
	want                string
}

// oracles returns where scripts/oracles.sh built the other implementations.
func oracles(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CARILLON_TEST_ORACLES")
	if dir != "" {
		return dir
	}
	if slices.Contains(strings.Split(os.Getenv("CARILLON_TEST_REQUIRE"), ","), "oracles") {
		t.Fatal("CARILLON_TEST_REQUIRE names oracles, but CARILLON_TEST_ORACLES is not set: set it to what scripts/oracles.sh prints")
	}
	t.Skipf("!!! SKIPPED, UNTESTED: %s compares with other implementations, and CARILLON_TEST_ORACLES is not set (to what scripts/oracles.sh prints)", t.Name())
	return ""
}

// ask hands the questions to a program, a line each, and requires this package's answers of it.
func ask(t *testing.T, questions []question, line func(q question) string, program string, args ...string) {
	t.Helper()
	var in, out, log bytes.Buffer
	for i := range questions {
		q := &questions[i]
		q.want = ours(t, *q)
		in.WriteString(line(*q) + "\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &log
	require.NoError(t, cmd.Run(), log.String())
	answers := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, answers, len(questions), log.String())
	instants := 0
	for i, q := range questions {
		theirs, ours := known(answers[i]), known(q.want)
		instants += len(theirs)
		if !slices.Equal(theirs, ours) {
			require.Equal(t, theirs, ours, "question %d: %q in %s after %s (expected is %s's)",
				i, q.spec, q.zone, time.UnixMilli(q.fromMS).UTC(), filepath.Base(program)+q.library)
		}
	}
	require.Greater(t, instants, 3*len(questions), "answers that are not empty")
	t.Logf("%d questions, %d instants", len(questions), instants)
}

func ours(t *testing.T, q question) string {
	t.Helper()
	p, err := schedule.Parse(cronOf(q.zone, q.spec), schedule.Inputs{})
	require.NoError(t, err, q.spec)
	var out []string
	for at := q.fromMS; len(out) < q.count; {
		if at = p.Next(at, 0); at == timer.NeverMS {
			break
		}
		out = append(out, strconv.FormatInt(at, 10))
	}
	return strings.Join(out, " ")
}

// known returns the instants of an answer before 2060, readable. Behind it, the others give up, each after years of its own.
func known(answer string) (out []string) {
	end := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, w := range strings.Fields(answer) {
		ms, err := strconv.ParseInt(w, 10, 64)
		switch at := time.UnixMilli(ms).UTC(); {
		case err != nil:
			return []string{answer} // an error, or something that is no answer
		case at.Before(end):
			out = append(out, at.Format(time.RFC3339))
		}
	}
	return out
}

// list writes a random field of values from low to high: a value, a list, a range or a stepped range.
func list(r *rand.Rand, low, high int) string {
	value := func() string { return strconv.Itoa(low + r.IntN(high-low+1)) }
	from := low + r.IntN(high-low+1)
	to := from + r.IntN(high-from+1)
	switch r.IntN(4) {
	case 0:
		return value()
	case 1:
		return value() + "," + value() + "," + value()
	}
	switch {
	case from == to: // as a range, some take it for the whole, or by steps for a value to begin at
		return strconv.Itoa(from)
	case r.IntN(2) == 0:
		return fmt.Sprintf("%d-%d", from, to)
	}
	return fmt.Sprintf("%d-%d/%d", from, to, 1+r.IntN(9))
}

// starred writes * or */n at some odds, else a list.
func starred(r *rand.Rand, low, high int, odds float64) string {
	switch f := r.Float64(); {
	case f < odds/2:
		return "*"
	case f < odds:
		return fmt.Sprintf("*/%d", 1+r.IntN((high-low)/2))
	default:
		return list(r, low, high)
	}
}

// Both ends of the years that the zone databases of Go, Java and Python agree on.
var (
	oracleFrom = time.Date(1996, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	oracleTo   = time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

func someInstant(r *rand.Rand) int64 {
	return (oracleFrom + r.Int64N(oracleTo-oracleFrom)) / 1000 * 1000
}

// TestAgreesWithQuartz compares L, W, # and the rest of Quartz's language. Quartz wants a ? in one of the day fields, and its numbers of
// weekdays begin with 1, so days have names. In zones, only times of day that no change of the clock touches: what Quartz makes of those has
// no rule to compare with.
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
		kind := r.IntN(9)
		if kind < 6 { // Quartz keeps the time of day that it had reached when such a day takes it to another one
			second, minute, hour = strconv.Itoa(r.IntN(60)), strconv.Itoa(r.IntN(60)), strconv.Itoa(4+r.IntN(19))
		}
		switch kind {
		case 0:
			date = "L"
		case 1:
			date = fmt.Sprintf("L-%d", 1+r.IntN(27))
		case 2:
			date = "LW"
		case 3: // from between a Sunday and its Monday, Quartz misses the Monday
			date = fmt.Sprintf("%dW", 1+r.IntN(28))
			from := time.UnixMilli(q.fromMS).UTC()
			q.fromMS = time.Date(from.Year(), from.Month(), 0, 0, 0, 0, 0, time.UTC).UnixMilli()
		case 4:
			weekday = fmt.Sprintf("%s#%d", day(), 1+r.IntN(5))
		case 5:
			weekday = day() + "L"
		case 6:
			weekday = day() + "," + day()
		case 7:
			weekday = "MON-FRI"
		default:
			date = starred(r, 1, 31, 0.5)
		}
		month := "*"
		if r.IntN(3) == 0 {
			month = []string{"JAN,JUN", "FEB", "2", "3-10/2", "MAR-SEP", "4,8,12", "*/5"}[r.IntN(7)]
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

// TestAgreesWithPython compares with cronsim, which has our rules for gaps and overlaps (shift and first, and every match where the hour is
// starred), in zones, and with croniter, for days of which either matches, seconds and years, in UTC.
//
// Left out is what they define otherwise: cronsim takes a starred minute for a rhythm, too, and a stepped star in a day field for a star.
func TestAgreesWithPython(t *testing.T) {
	t.Parallel()
	dir := oracles(t)
	r := rand.New(rand.NewPCG(13, 14))
	zones := []string{
		"Europe/Berlin", "Europe/Dublin", "America/New_York", "Australia/Sydney", "Pacific/Chatham", "Pacific/Auckland", "Antarctica/Troll", "UTC",
		"Australia/Lord_Howe", "America/Santiago", "America/Havana", "America/Sao_Paulo", "Asia/Beirut", "Asia/Tehran", "Asia/Amman",
	}
	const whole = 8 // of the others, which change at midnight or by half an hour, cronsim loses its way within a starred hour
	questions := make([]question, 3000)
	for i := range questions {
		q := question{library: "cronsim", zone: zones[r.IntN(len(zones))], fromMS: someInstant(r), count: 5}
		table := changes(t, q.zone)
		if len(table) > 0 && r.IntN(2) == 0 { // from a day before the clock changes
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
			q.spec = strings.Join([]string{starred(r, 0, 59, 0.4), []string{"*", "*/2", "*/5"}[r.IntN(3)], dates, months, weekdays}, " ")
		case 1:
			q.spec = strings.Join([]string{list(r, 0, 59), list(r, 0, 23), dates, months, weekdays}, " ")
		default:
			q.library, q.zone = "croniter", "UTC"
			q.spec = strings.Join([]string{starred(r, 0, 59, 0.1), starred(r, 0, 59, 0.2), starred(r, 0, 23, 0.3), list(r, 1, 28), months, list(r, 0, 6)}, " ")
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

// changes returns when a zone's clock changed between oracleFrom and oracleTo.
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
		default: // a mistake of ZoneBounds: see package zone
			at = at.Add(time.Hour)
		}
	}
	return out
}
