package importer_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/importer"
)

// TestDaysOfQuartz checks the day of week, which Quartz counts from 1 for Sunday.
func TestDaysOfQuartz(t *testing.T) {
	t.Parallel()
	for quartz, want := range map[string]string{
		"1":       "SUN",
		"2-6":     "MON-FRI",
		"2,4,7":   "MON,WED,SAT",
		"6L":      "FRIL",
		"2#3":     "MON#3",
		"MON-FRI": "MON-FRI",
		"*/2":     "*/2",
		"?":       "?",
	} {
		day := "?"
		if quartz == "?" {
			day = "1"
		}
		results, err := importer.Read("xxl-job", fmt.Appendf(
			nil,
			`[{"id":1,"jobDesc":"a","scheduleType":"CRON","scheduleConf":"0 0 9 %s * %s"}]`,
			day,
			quartz,
		), importer.Options{App: "shop", URL: "https://example.com", Zone: "UTC"})
		require.NoError(t, err)
		require.NotNil(t, results[0].Manifest, "%s: %v", quartz, results[0].Notes)
		specs := results[0].Manifest.Body.Object("schedule").List("specs")
		require.Equal(t, []any{fmt.Sprintf("0 0 9 %s * %s", day, want)}, specs)
	}
}
