package schedule_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// question is a question to an independent implementation, with this package's answer.
type question struct {
	library, spec, zone string // library is that of the Python program
	fromMS              int64
	count               int
	want                string
}

// oracles returns where scripts/oracles.sh built the other implementations.
func oracles(t *testing.T) string {
	t.Helper()
	return testenv.Oracle(t, "CARILLON_TEST_ORACLES", "scripts/oracles.sh",
		"compares with other implementations")
}

// ask passes the questions to a program, one per line, and requires the same answers.
func ask(
	t *testing.T,
	questions []question,
	line func(q question) string,
	program string,
	args ...string,
) {
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

// known returns the readable instants of an answer before 2060. Later, the other implementations
// give up at different years.
func known(answer string) (out []string) {
	end := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	for w := range strings.FieldsSeq(answer) {
		ms, err := strconv.ParseInt(w, 10, 64)
		switch at := time.UnixMilli(ms).UTC(); {
		case err != nil:
			return []string{answer} // an error or an invalid answer
		case at.Before(end):
			out = append(out, at.Format(time.RFC3339))
		}
	}
	return out
}

// list returns a random field of values from low to high: a value, a list, a range or a stepped
// range.
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
	// as a range, some libraries take it for the whole field, or with a step for a start
	case from == to:
		return strconv.Itoa(from)
	case r.IntN(2) == 0:
		return fmt.Sprintf("%d-%d", from, to)
	}
	return fmt.Sprintf("%d-%d/%d", from, to, 1+r.IntN(min(9, high-low)))
}

// wrapped returns a random range that continues with the field's first value, with or without a
// step.
func wrapped(r *rand.Rand, low, high int) string {
	to := low + r.IntN(high-low)
	from := to + 1 + r.IntN(high-to)
	if r.IntN(2) == 0 {
		return fmt.Sprintf("%d-%d", from, to)
	}
	return fmt.Sprintf("%d-%d/%d", from, to, 1+r.IntN(9))
}

// starred returns * or */n with the given odds, otherwise a list.
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

// The range of years on which the zone databases of Go, Java and Python agree.
var (
	oracleFrom = time.Date(1996, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	oracleTo   = time.Date(2022, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

func someInstant(r *rand.Rand) int64 {
	return (oracleFrom + r.Int64N(oracleTo-oracleFrom)) / 1000 * 1000
}
