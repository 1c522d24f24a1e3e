package requests

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBodiesAreBounded checks that there are never more bodies than allowed, in any order of begin,
// end and abort, and that a finished body is not aborted.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	b := NewBodyLimiter(5, time.Second, time.Second)
	b.perAddress = 2
	var in []*bodyRead
	cut := make([]int, 40)
	for i := range 40 {
		a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i * i % 7)})
		x := b.begin(a, func(at time.Time) error {
			if at.Equal(time.Unix(1, 0)) {
				cut[i]++
			}
			return nil
		})
		in = append(in, x)
		require.LessOrEqual(t, b.oldestFirst.Len(), 5)
		require.LessOrEqual(t, b.byAddress[a].Len(), 2)
		require.Same(t, x, b.oldestFirst.Back().Value, "a new one is let in")
		if i%3 == 0 {
			b.end(in[i/2])
			in[i/2].abort()
		}
	}
	gone := 0
	for i := range cut {
		require.LessOrEqual(t, cut[i], 1)
		gone += cut[i]
		b.end(in[i])
	}
	require.Positive(t, gone)
	require.Zero(t, b.oldestFirst.Len())
	require.Empty(t, b.byAddress)
}
