package limit_test

import (
	"math/rand/v2"
	"testing"
	"time"

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
	require.Equal(t, [3]int{0, 400, 100}, got, "a priority without fires is not picked")

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
	require.Equal(t, 1, low, "a priority without fires gains no credit")

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

// sharesHold requires that every priority has its share, plus or minus one, of any 42 consecutive
// starts throughout which it had something due. Simultaneous starts have no order, because several
// executors make them. So each tested range begins and ends between two instants.
func sharesHold(t *testing.T, starts []limit.Priority, due [][3]bool, at []time.Duration) {
	t.Helper()
	share := [3]int{32, 8, 2}
	begins := func(i int) bool { return i == 0 || i == len(at) || at[i] != at[i-1] }
	for from := range starts {
		to := from + 42
		for to < len(at) && !begins(to) {
			to++
		}
		if to > len(starts) || !begins(from) {
			continue
		}
		var got [3]int
		throughout := [3]bool{true, true, true}
		for i := from; i < to; i++ {
			got[starts[i]]++
			for c := range throughout {
				throughout[c] = throughout[c] && due[i][c]
			}
		}
		all := throughout == [3]bool{true, true, true}
		for c, n := range share {
			n *= to - from
			few, many := throughout[c] && got[c] < n/42-1, all && got[c] > (n+41)/42+1
			if few || many { // testify's comparisons would take most of the test's time
				require.Failf(t, "share", "priority %d of starts %d to %d: %v", c, from, to-1, got)
			}
		}
	}
}

// TestSharesHoldInAnyWindow: in any 42 consecutive picks each priority has its share while it
// waits, whatever the others do.
func TestSharesHoldInAnyWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6))
		var p limit.Picker
		var waiting, often [3]bool
		var starts []limit.Priority
		var due [][3]bool
		change := []int{2, 5, 20, 100, 1000}[r.IntN(5)]
		for i := range often {
			often[i] = r.IntN(2) == 0
		}
		var left [3]int // waiting jobs; they arrive in bursts and leave when picked
		for range 2000 {
			for c := range waiting {
				if r.IntN(change) == 0 && (often[c] || r.IntN(4) == 0) {
					left[c] += 1 + r.IntN(change)
				}
				waiting[c] = left[c] > 0
			}
			who, ok := p.Next(waiting)
			require.Equal(t, waiting != [3]bool{}, ok)
			if !ok {
				continue
			}
			require.True(t, waiting[who], "picked, and has nothing")
			left[who]--
			starts, due = append(starts, who), append(due, waiting)
		}
		at := make([]time.Duration, len(starts))
		for i := range at {
			at[i] = time.Duration(i)
		}
		sharesHold(t, starts, due, at)
	}
}
