package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHeatMapWhereClocksChange checks which instants the hours have on days when clocks change.
func TestHeatMapWhereClocksChange(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return at
	}
	for name, c := range map[string]struct {
		zone, now, date string
		hour            int
		begin, end      string // empty: the clocks skip the hour
	}{
		"back: the hour before": {"Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25", 1, "2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z"},
		"back: twice":           {"Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-25", 2, "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},
		"forward: before":       {"America/New_York", "2026-03-08T12:00:00Z", "2026-03-08", 1, "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"},
		"forward: skipped":      {"America/New_York", "2026-03-08T12:00:00Z", "2026-03-08", 2, "", ""},
		"forward: after":        {"America/New_York", "2026-03-08T12:00:00Z", "2026-03-08", 3, "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"},
		"no midnight":           {"America/Santiago", "2026-09-05T04:30:00Z", "2026-09-06", 1, "2026-09-06T04:00:00Z", "2026-09-06T05:00:00Z"},
	} {
		in, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		m := newHeatMap(at(c.now).In(in))
		days := 0
		for i := range m {
			if m[i].Date != c.date {
				continue
			}
			days++
			if h := m[i].Hours[c.hour]; c.begin == "" {
				require.True(t, h.begin.IsZero(), name)
				h.missFrom(at("2020-01-01T00:00:00Z"))
				h.missBefore(at("2030-01-01T00:00:00Z"))
				require.False(t, h.Partial || h.Uncounted, name)
			} else {
				require.Equal(t, at(c.begin), h.begin.UTC(), name)
				require.Equal(t, at(c.end), h.end.UTC(), name)
			}
		}
		require.Equal(t, 1, days, name)
		require.False(t, m.begin().IsZero())
	}
}
