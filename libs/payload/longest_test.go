package payload_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestLongest checks that no expansion is longer than Longest, in any place and for any fire, and
// that few are much shorter.
func TestLongest(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/Argentina/ComodRivadavia")
	require.NoError(t, err)
	labels := map[string]string{"team": "till", "odd": strings.Repeat(`"<&ä'>\/%`, 20)}
	v := payload.Values{
		Fire: timer.FireID{
			Timer:  timer.MaxID,
			DueMS:  time.Date(9999, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli(),
			Series: math.MaxInt64,
		},
		Attempt: math.MaxInt32,
		App:     strings.Repeat(`"`, timer.MaxAppLen),
		Name:    strings.Repeat(`"`, timer.MaxNameLen),
		Cause:   "backfill",
		Labels:  labels,
		Zone:    zone,
	}
	for _, p := range []payload.Place{payload.URL, payload.Header, payload.JSON, payload.Form, payload.XML, payload.Text} {
		for _, name := range []string{
			"fire.id", "due", "due.utc", "due.unix", "due.unix_ms", "attempt", "cause", "timer.id", "timer.name", "app", "zone", "label.team", "label.odd", "open",
		} {
			src := "a{{" + name + "}}b{{ " + name + " }}"
			got, err := payload.Expand(src, p, &v)
			require.NoError(t, err)
			longest := payload.Longest(src, p, labels)
			require.LessOrEqual(t, len(got), longest, "%s in place %d", name, p)
			if name != "zone" {
				require.LessOrEqual(t, longest, len(got)+12, "%s in place %d", name, p)
			}
		}
	}
	require.Equal(t, 5, payload.Longest("plain", payload.URL, nil))
}
