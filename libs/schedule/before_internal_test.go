package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// counted counts the searches of its instants.
type counted struct {
	instants

	searches *int
}

func (c counted) next(afterMS, anchorMS int64) int64 {
	*c.searches++
	return c.instants.next(afterMS, anchorMS)
}

// TestLastInstantIsFoundInFewSteps checks that no step searches the time up to 2199, in which a
// calendar excludes every instant.
func TestLastInstantIsFoundInFewSteps(t *testing.T) {
	t.Parallel()
	p, err := Parse(
		timer.Schedule{
			Kind: timer.KindCron, Specs: []string{"0 30 9 1 2 * 2026", "@every 24h"},
			Calendars: []string{"morning"},
		},
		Inputs{Calendars: []timer.Calendar{{
			Name: "morning", AllowedTimes: []timer.TimeRange{{From: "09:00", To: "10:00"}},
		}}},
	)
	require.NoError(t, err)
	searches := 0
	for i, part := range p.parts {
		p.parts[i] = counted{part, &searches}
	}
	midnight := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	last := time.Date(2026, 2, 1, 9, 30, 0, 0, time.UTC).UnixMilli()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixMilli()
	require.Equal(t, last, p.Before(at, midnight))
	require.Less(t, searches, 2_000)
	require.Equal(t, timer.NeverMS, p.Before(last, midnight))
	require.Equal(t, last, p.Before(last+1, midnight))
}
