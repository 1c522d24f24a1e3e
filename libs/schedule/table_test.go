package schedule_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// ruleCase is an example of a rule of doc.go: the first instants after another. They were computed
// independently of this package, day by day with Python's zoneinfo. Future ones hold as long as the
// zone database does not change.
type ruleCase struct {
	name, zone, spec string
	gap              timer.GapPolicy
	overlap          timer.OverlapPolicy
	after            string
	want             string // instants in UTC, separated by blanks; empty means none
}

func TestRuleTables(t *testing.T) {
	t.Parallel()
	all := slices.Concat(gapCases, overlapCases, edgeCases, hourlyCases, specCases)
	require.GreaterOrEqual(t, len(all), 300)
	seen := map[string]bool{}
	for _, tt := range all {
		require.False(t, seen[tt.name], "two cases are called %q", tt.name)
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := cronOf(tt.zone, tt.spec)
			s.Gap, s.Overlap = tt.gap, tt.overlap
			p, err := schedule.Parse(s, schedule.Inputs{})
			require.NoError(t, err)
			want := strings.Fields(tt.want)
			at := ms(t, tt.after)
			var got []string
			for range max(len(want), 1) {
				if at = p.Next(at, 0); at == timer.NeverMS {
					break
				}
				got = append(got, time.UnixMilli(at).UTC().Format(time.RFC3339))
			}
			require.Equal(t, strings.Join(want, " "), strings.Join(got, " "))
		})
	}
}
