package calendar_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// icsQuestion is a question to recurring-ical-events.
type icsQuestion struct {
	File string `json:"ics"`
	Zone string `json:"zone"`
	From string `json:"from"` // first day
	To   string `json:"to"`   // the day after the last

	want []string // this package's answer
}

// TestICSAgreesWithPython compares the days of random files with recurring-ical-events. Events are
// by date, without a zone, in UTC, in zones with unusual clock changes, or in a zone of the file.
// They have rules of every frequency with BY parts, RDATE, EXDATE, and changed occurrences.
func TestICSAgreesWithPython(t *testing.T) {
	t.Parallel()
	dir := testenv.Oracle(t, "CARILLON_TEST_ORACLES", "scripts/oracles.sh",
		"compares with another implementation")
	r := rand.New(rand.NewPCG(17, 5))
	questions := make([]icsQuestion, 2000)
	var in, out, log bytes.Buffer
	for i := range questions {
		questions[i] = randomQuestion(t, r)
		line, err := json.Marshal(questions[i])
		require.NoError(t, err)
		in.Write(append(line, '\n'))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(
		ctx,
		filepath.Join(dir, "python", "bin", "python"),
		filepath.Join("oracle", "oracle.py"),
	)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &log
	require.NoError(t, cmd.Run(), log.String())
	answers := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, answers, len(questions), log.String())
	days := 0
	for i, q := range questions {
		theirs := strings.Fields(answers[i])
		days += len(theirs)
		if theirs, ours := q.compared(theirs), q.compared(q.want); !slices.Equal(theirs, ours) {
			require.Equal(
				t,
				theirs,
				ours,
				"question %d, in %q from %s to %s (expected is Python's):\n%s",
				i,
				q.Zone,
				q.From,
				q.To,
				q.File,
			)
		}
	}
	require.Greater(t, days, 20*len(questions), "days that are touched")
	t.Logf("%d files, %d days", len(questions), days)
}

// compared removes days on which Python is wrong. For a missing local time in a zone defined by the
// file, dateutil uses the offset after the gap. RFC 5545 (3.3.5) and Python's own zones use the
// offset before it.
func (q icsQuestion) compared(days []string) []string {
	if !strings.Contains(q.File, "TZID=Home") {
		return days
	}
	return slices.DeleteFunc(slices.Clone(days), func(day string) bool {
		at, err := time.Parse(time.DateOnly, day)
		gap := time.Date(at.Year(), time.April, 1, 0, 0, 0, 0, time.UTC)
		gap = gap.AddDate(0, 0, -1-int(gap.AddDate(0, 0, -1).Weekday()))
		return err == nil && at.After(gap.AddDate(0, 0, -2)) && at.Before(gap.AddDate(0, 0, 2))
	})
}

// randomQuestion creates a file of one event with changes, and asks for days that this package must
// know.
func randomQuestion(t *testing.T, r *rand.Rand) icsQuestion {
	t.Helper()
	kind := []string{";VALUE=DATE", "", "Z", ";TZID=Home", ";TZID=" + icsZones[r.IntN(len(icsZones))], ";TZID=" + icsZones[r.IntN(len(icsZones))]}[r.IntN(6)]
	e := newRandomEvent(r, kind, false)
	q := icsQuestion{File: e.file(), From: "2016-01-01", To: "2031-01-01"}
	if r.IntN(4) > 0 {
		q.Zone = icsZones[r.IntN(len(icsZones))]
	}
	got, err := calendar.ParseICS(strings.NewReader(q.File), in(q.Zone))
	require.NoError(t, err, q.File)
	if got.EndlessFrom != "" {
		q.From = got.EndlessFrom
	}
	if got.EndlessUntil != "" && got.EndlessUntil < q.To {
		q.To = got.EndlessUntil
	}
	for _, day := range got.Dates {
		if day >= q.From && day < q.To {
			q.want = append(q.want, day)
		}
	}
	return q
}
