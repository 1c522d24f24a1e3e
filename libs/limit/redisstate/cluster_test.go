package redisstate_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/redisstate"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// network dials servers until one is taken away.
type network struct {
	hangs bool          // a server that is away does not refuse connections
	over  chan struct{} // closed at the end of the test: the client may dial behind its calls

	mu    sync.Mutex
	conns map[string][]net.Conn
	away  string
}

func (n *network) dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	n.mu.Lock()
	away := n.away == addr
	n.mu.Unlock()
	if away && n.hangs {
		select {
		case <-ctx.Done():
		case <-n.over:
		}
	}
	if away {
		return nil, &net.OpError{Op: "dial", Net: kind, Err: net.ErrClosed}
	}
	c, err := new(net.Dialer).DialContext(ctx, kind, addr)
	if err != nil {
		return nil, err //nolint:wrapcheck // as a dialer
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[addr] = append(n.conns[addr], c)
	return c, nil
}

// take takes a server away, or returns it.
func (n *network) take(addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = addr
	for _, c := range n.conns[addr] {
		_ = c.Close()
	}
}

// TestOneNodeAway takes one node of a cluster away. The demands of its apps fail. Those of the others
// are answered, and each takes its tokens once.
func TestOneNodeAway(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"refuses connections": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const apps, burst, tokens, syncs = 60, 100, 10, 2
			addrs, prefix := testenv.RedisCluster(t)
			cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
			t.Cleanup(func() { require.NoError(t, cluster.Close()) })
			demands := make([]limit.Demand, apps)
			has := make([]string, apps) // server of each app
			for i := range demands {
				demands[i] = limit.Demand{
					App:      fmt.Sprint("app", i),
					Settings: limit.Settings{Rate: 0.001, Burst: burst},
					Tokens:   tokens,
				}
				master, err := cluster.MasterForKey(
					t.Context(),
					fmt.Sprintf("%s:{l:%s}", prefix, demands[i].App),
				)
				require.NoError(t, err)
				has[i] = master.Options().Addr
			}
			n := &network{
				hangs: hangs, over: make(chan struct{}), conns: make(map[string][]net.Conn),
			}
			t.Cleanup(func() { close(n.over) })
			l := newState(t, redisstate.Options{
				Addrs: addrs, Prefix: prefix, Timeout: 3 * time.Second, Dial: n.dial,
			})
			sync := func() (failed int) {
				t.Helper()
				grants, err := l.Sync(t.Context(), "e", demands)
				require.NoError(t, err)
				for i, g := range grants {
					if has[i] == n.away {
						require.Equal(t, timer.CodeUnavailable, timer.CodeOf(g.Err))
						require.Zero(t, g.Tokens)
						failed++
						continue
					}
					require.NoError(t, g.Err)
					require.Equal(t, tokens, g.Tokens)
				}
				return failed
			}
			require.Zero(t, sync())
			n.take(has[0])
			for range syncs {
				require.Positive(t, sync())
			}
			grants, err := l.Sync(t.Context(), "e", demands[:1])
			require.Nil(t, grants)
			require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))

			n.take("")
			for i := range demands {
				demands[i].Tokens = burst
			}
			grants, err = l.Sync(t.Context(), "e", demands)
			require.NoError(t, err)
			for i, g := range grants {
				if has[i] != has[0] {
					require.NoError(t, g.Err)
					require.Equal(t, burst-(1+syncs)*tokens, g.Tokens)
				}
			}
		})
	}
}
