package scenario

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
)

// TestTLSToEveryServer runs all services with MySQL, Redis and Pulsar that demand a client
// certificate.
func TestTLSToEveryServer(t *testing.T) {
	t.Parallel()
	start := func(ctx context.Context, o cluster.Options) (cluster.Cluster, func(), error) {
		return startOn(ctx, o, cluster.RealServersTLS)
	}
	r := &runner{name: "real", start: start}
	t.Run(r.name, func(t *testing.T) {
		t.Parallel()
		runOnOwn(t, r, cluster.Options{}, func(t *testing.T, env *environment) {
			id := env.once(
				t,
				client.NewTimer{Name: "tls", Target: client.Post(env.rcv.URL("/tls"))},
				time.Now().Add(5*time.Second).Truncate(time.Second),
			)
			env.waitFor(t, id, func(f *client.Fire) bool { return f.Status == "delivered" })
		})
	})
}
