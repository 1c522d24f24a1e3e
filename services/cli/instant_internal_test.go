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
		"-7d":                       "2026-03-01T12:00:00Z",
		"1d":                        "2026-03-09T12:00:00Z",
		"+1d12h":                    "2026-03-10T00:00:00Z",
		"-90m":                      "2026-03-08T10:30:00Z",
		"0s":                        "2026-03-08T12:00:00Z",
		"2026-01-01T00:00:00+01:00": "2026-01-01T00:00:00+01:00",
	} {
		got, err := instant(text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "7", "tomorrow", "1d-2h", "2026-01-01"} {
		_, err := instant(text, now)
		require.ErrorContains(t, err, "such as 90m or 7d, found", text)
	}
	at, err := parsePosition("-2d", now)
	require.NoError(t, err)
	require.Equal(t, pulsartopics.Position{At: now.AddDate(0, 0, -2)}, at)
	_, err = parsePosition("2d", now)
	require.ErrorContains(t, err, "negative duration")
}
