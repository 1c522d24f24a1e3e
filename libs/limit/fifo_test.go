package limit_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// TestFIFOKeepsTheOrder compares a queue with two plain slices, over random operations.
func TestFIFOKeepsTheOrder(t *testing.T) {
	t.Parallel()
	var q limit.FIFO[int]
	var first, items []int
	for i := range 20_000 {
		switch rand.IntN(5) {
		case 0:
			q.PushFirst(i)
			first = append(first, i)
		case 1, 2:
			q.Push(i)
			items = append(items, i)
		default:
			if from := &items; len(first)+len(items) > 0 {
				if len(first) > 0 {
					from = &first
				}
				require.Equal(t, (*from)[0], q.Pop())
				*from = (*from)[1:]
			}
		}
		require.Equal(t, len(first), q.LenFirst())
		require.Equal(t, len(first)+len(items), q.Len())
	}
	q.PushFirst(1)
	q.Push(2)
	require.Equal(t, append(append(first, 1), append(items, 2)...), q.Drain())
	require.Zero(t, q.Len())
	require.Empty(t, q.Drain())
}
