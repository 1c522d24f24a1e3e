package executor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCatchingUpGivesWayToThePresent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pace
		require.Zero(t, p.next())
		p.began(paceLate - time.Millisecond)
		require.Zero(t, p.next(), "nothing presses")

		p.began(paceLate)
		require.Equal(t, paceFirst, p.next())
		require.Equal(t, 2*paceFirst, p.next())
		for range 20 {
			p.next()
		}
		require.Equal(t, paceMost, p.next(), "it goes on, however pressed")

		time.Sleep(paceFor)
		require.Equal(t, paceMost/2, p.next())
		for range 20 {
			p.next()
		}
		require.Zero(t, p.next())
	})
}
