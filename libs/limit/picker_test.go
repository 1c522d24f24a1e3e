package limit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

func TestPicker(t *testing.T) {
	t.Parallel()
	p := limit.NewPicker(limit.DefaultWeights())
	var got [3]int
	last, longest := 0, 0
	for i := range 2100 {
		who, ok := p.Next([3]bool{true, true, true})
		require.True(t, ok)
		got[who]++
		if who == limit.Low {
			longest, last = max(longest, i-last), i
		}
	}
	require.Equal(t, [3]int{1600, 400, 100}, got)
	require.LessOrEqual(t, longest, 22, "low is not put off")

	got = [3]int{}
	for range 500 {
		who, _ := p.Next([3]bool{false, true, true})
		got[who]++
	}
	require.Equal(t, [3]int{0, 400, 100}, got, "who has nothing takes no turn")

	for range 1000 {
		who, _ := p.Next([3]bool{true, false, false})
		require.Equal(t, limit.High, who)
	}
	low := 0
	for range 21 {
		if who, _ := p.Next([3]bool{true, true, true}); who == limit.Low {
			low++
		}
	}
	require.Equal(t, 1, low, "who had nothing gathered no credit")

	_, ok := p.Next([3]bool{})
	require.False(t, ok)
	p = limit.NewPicker(limit.Weights{})
	got = [3]int{}
	for range 30 {
		who, _ := p.Next([3]bool{true, true, true})
		got[who]++
	}
	require.Equal(t, [3]int{10, 10, 10}, got)
}
