package wiring_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/services/wiring"
)

// TestServersAtTheWrongPort starts a service whose brokers and Redis are ports for TLS. The database
// and the admin API answer, so the service starts. The log and /readyz say what to change.
func TestServersAtTheWrongPort(t *testing.T) {
	t.Parallel()
	dsn := testenv.MySQL(t)
	addrs, _, _ := testenv.RedisTLS(t)
	place := testenv.Pulsar(t)
	encrypted, _ := testenv.PulsarTLS(t)
	env := envWith(
		"CARILLON_MYSQL_DSN", dsn, "CARILLON_REDIS_ADDRS", addrs[0],
		"CARILLON_PULSAR_URL", strings.Replace(encrypted.URL, "pulsar+ssl://", "pulsar://", 1),
		"CARILLON_PULSAR_ADMIN_URL", place.AdminURL,
		"CARILLON_PULSAR_TENANT", place.Tenant, "CARILLON_PULSAR_NAMESPACE", place.Namespace,
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, done := &output{}, make(chan error, 1)
	go func() { done <- wiring.Service(wiring.Trigger())(ctx, nil, env, io.Discard, out) }()

	_, broker, _ := strings.Cut(encrypted.URL, "://")
	says := func(text, server string) bool {
		if server == "redis" {
			return strings.Contains(text, addrs[0]) && strings.Contains(text, "set redis-tls=true")
		}
		return strings.Contains(text, broker) && strings.Contains(text, "needs pulsar+ssl://")
	}
	require.Eventually(t, func() bool {
		_, problems := readiness(t, out)
		logged := map[string]bool{}
		for line := range strings.Lines(out.text()) {
			for _, server := range []string{"redis", "pulsar"} {
				logged[server] = logged[server] ||
					strings.Contains(line, `"level":"warn"`) && says(line, server)
			}
		}
		return says(problems["pulsar"], "pulsar") && says(problems["redis at start"], "redis") &&
			says(problems["redis"], "redis") && logged["redis"] && logged["pulsar"]
	}, 2*time.Minute, 100*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}
