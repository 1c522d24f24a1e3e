package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestPositionsAreInTheOrderOfOutcomes compares the finish first, and then timer, due and series.
func TestPositionsAreInTheOrderOfOutcomes(t *testing.T) {
	t.Parallel()
	at := func(finished int64, id timer.ID, due, series int64) store.OutcomePosition {
		return store.OutcomePosition{
			FinishedMS: finished, FireID: timer.FireID{Timer: id, DueMS: due, Series: series},
		}
	}
	ordered := []store.OutcomePosition{
		at(
			1,
			9,
			9,
			9,
		),
		at(2, 1, 100, 0),
		at(2, 2, 50, 0),
		at(2, 2, 50, 1),
		at(2, 2, 60, 0),
		at(3, 0, 0, 0),
	}
	for i, a := range ordered {
		for j, b := range ordered {
			require.Equal(t, i < j, a.Before(b), "%v %v", a, b)
		}
	}
}
