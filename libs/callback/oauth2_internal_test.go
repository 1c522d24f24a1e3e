package callback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestARefusalIsNotLost checks that a refused token is not used again, even if it is refused while
// another call reads it, and that a refusal of an older one changes nothing.
func TestARefusalIsNotLost(t *testing.T) {
	t.Parallel()
	all, err := newTokens(nil, nil)
	require.NoError(t, err)
	var o timer.OAuth2
	p := new(egress.Policy)
	e := all.entry(grantOf("shop", p, &o))
	e.until = time.Now().Add(time.Hour)
	e.value.Store(&tokenValue{text: "new"})
	<-e.lock // a reader
	all.drop("shop", p, &o, "old")
	require.True(t, e.usable())
	all.drop("shop", p, &o, "new")
	require.False(t, e.usable())
	all.drop("shop", p, &o, "old") // late
	require.False(t, e.usable())
	e.value.Store(&tokenValue{text: "new"})
	require.True(t, e.usable(), "the server gave it again")
}
