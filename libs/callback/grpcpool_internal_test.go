package callback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestDeadHTTP2ConnectionsAreFound(t *testing.T) {
	t.Parallel()
	h, err := NewHTTP(HTTPOptions{})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	require.Equal(t, pingAfter, h.transports.common.HTTP2.SendPingTimeout)
	require.Equal(t, pingTimeout, h.transports.common.HTTP2.PingTimeout)
	retry := timer.DefaultRetry()
	third := 2*time.Duration(retry.Timeout) + retry.WaitAfter(1) + retry.WaitAfter(2)
	require.Less(t, pingAfter+pingTimeout, third)
}

// TestAnEvictedChannelLivesAsLongAsItIsUsed checks that an evicted channel closes when its last
// call ends, and not before.
func TestAnEvictedChannelLivesAsLongAsItIsUsed(t *testing.T) {
	t.Parallel()
	g, err := NewGRPC(GRPCOptions{})
	require.NoError(t, err)
	policy := egress.NewPolicy(egress.Options{})
	key := channelKey{address: "192.0.2.1:443", transport: transportKey{policy: policy.Key()}}
	one, err := g.channels.get(policy, key)
	require.NoError(t, err)
	two, err := g.channels.get(policy, key)
	require.NoError(t, err)
	require.Same(t, one, two)
	g.Close()
	require.NotEqual(t, connectivity.Shutdown, one.conn.GetState())
	one.release()
	require.NotEqual(t, connectivity.Shutdown, one.conn.GetState())
	two.release()
	require.Equal(t, connectivity.Shutdown, one.conn.GetState())
	fresh, err := g.channels.get(policy, key)
	require.NoError(t, err)
	require.NotSame(t, one, fresh)
	fresh.release()
	g.Close()
	require.Equal(t, connectivity.Shutdown, fresh.conn.GetState())
}
