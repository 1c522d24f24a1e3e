package timers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestWarnsOfACountThatIsReached checks that reaching max_fires is reported once no fire is left to
// come.
func TestWarnsOfACountThatIsReached(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	s := &Resource{Now: func() time.Time { return now }}
	counted := func(made, most int64) *timer.Timer {
		return &timer.Timer{
			ID:           1,
			Status:       timer.StatusActive,
			AnchorMS:     now.Add(-time.Hour).UnixMilli(),
			FiresCreated: made,
			NextDueMS:    timer.NeverMS,
			Definition: timer.Definition{
				Schedule: timer.Schedule{
					Kind:     timer.KindInterval,
					Every:    timer.Duration(time.Minute),
					MaxFires: most,
				},
			},
		}
	}
	got := s.warnings(counted(5, 5), timer.NeverMS)
	require.Len(t, got, 1)
	require.Equal(t, "body.schedule.max_fires", got[0].Location)
	require.Contains(t, got[0].Message, "5 fires are made")
	require.Empty(
		t,
		s.warnings(counted(5, 5), now.Add(time.Minute).UnixMilli()),
		"one is still to come",
	)
	require.Empty(t, s.warnings(counted(4, 5), timer.NeverMS))
	require.Empty(t, s.warnings(counted(5, 0), timer.NeverMS), "without a limit")
}
