package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCronInWords checks the forms that are put into words, and that others stay expressions.
func TestCronInWords(t *testing.T) {
	t.Parallel()
	all, err := loadViews()
	require.NoError(t, err)
	for spec, want := range map[string]string{
		"* * * * * *":         "every second",
		"*/10 * * * * *":      "every 10 seconds",
		"*/7 * * * * *":       "*/7 * * * * *", // 56 s and 60 s are 4 s apart
		"*/10 0 * * * *":      "*/10 0 * * * *",
		"* * * * *":           "every minute",
		"0 */5 * * * *":       "every 5 minutes",
		"*/5 * * * MON-FRI":   "Monday to Friday every 5 minutes",
		"15 * * * *":          "every hour at minute 15",
		"30 2 * * *":          "every day at 02:30",
		"0 9 ? * MON,WED":     "on Monday, Wednesday at 09:00",
		"0 0 1 * *":           "each month on day 1 at 00:00",
		"0 0 L * *":           "each month on the last day at 00:00",
		"0 0 1 1 *":           "0 0 1 1 *",
		"0 0 15 * MON":        "0 0 15 * MON",
		"30 2 * * MON-FRI#2":  "30 2 * * MON-FRI#2",
		"H H(0-7) * * *":      "H H(0-7) * * *",
		"TZ=UTC 30 2 * * * *": "TZ=UTC 30 2 * * * *",
	} {
		require.Equal(t, want, all["en"].describeCron(spec), spec)
	}
	require.Equal(t, "每 10 秒", all["zh"].describeCron("*/10 * * * * *"))
}
