package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus/pulsartopics"
)

// TestInstant checks that instants may be durations from now, with days as the API writes them.
func TestInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"-7d":                         "2026-03-01T12:00:00Z",
		"1d":                          "2026-03-09T12:00:00Z",
		"+1d12h":                      "2026-03-10T00:00:00Z",
		"-90m":                        "2026-03-08T10:30:00Z",
		"0s":                          "2026-03-08T12:00:00Z",
		"2026-01-01T00:00:00+01:00":   "2026-01-01T00:00:00+01:00",
		"2026-12-01 04:54:46 UTC":     "2026-12-01T04:54:46Z",
		"2026-12-01 04:54:46.250 UTC": "2026-12-01T04:54:46.25Z",
	} {
		got, err := instant(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "7", "tomorrow", "1d-2h", "2026-01-01", "2026-01-01 00:00:00 XYZ"} {
		_, err := instant(text, now)
		require.ErrorContains(t, err, "such as 90m or 7d, found", text)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, due := range []time.Time{
		time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), // the hour that the clock repeats
		time.Date(2026, 10, 25, 1, 30, 0, 250_000_000, time.UTC),
	} {
		read, ok := parseListed(listed(due.In(berlin)), berlin)
		require.True(t, ok)
		require.True(t, due.Equal(read), read)
	}
	_, ok := parseListed("2026-12-01 04:54:46 MST", berlin)
	require.False(t, ok, "it is not known how far the zone is from UTC")
	at, err := parsePosition("-2d", now)
	require.NoError(t, err)
	require.Equal(t, pulsartopics.Position{At: now.AddDate(0, 0, -2)}, at)
	_, err = parsePosition("2d", now)
	require.ErrorContains(t, err, "negative duration")
}
