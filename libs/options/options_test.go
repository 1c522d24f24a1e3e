package options_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/options"
)

func TestDefaultLeavesWhatWasSet(t *testing.T) {
	t.Parallel()
	unset, set := time.Duration(0), time.Minute
	options.Default(&unset, time.Second)
	options.Default(&set, time.Second)
	require.Equal(t, time.Second, unset)
	require.Equal(t, time.Minute, set)
}

func TestEverythingMissingIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	c := options.Of("clock")
	require.NoError(t, c.Err())
	c.Need("Rope", true)
	c.Need("Clapper", false)
	c.Refuse(true, "Pitch is positive")
	require.EqualError(t, c.Err(), "clock: Rope is missing\nclock: Pitch is positive")
}
