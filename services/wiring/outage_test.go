package wiring_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/services/wiring"
)

// TestMySQLOutageIsLogged starts a service whose MySQL hangs for a while. The log and /readyz say so,
// and the log says when it is over.
func TestMySQLOutageIsLogged(t *testing.T) {
	t.Parallel()
	place := testenv.Pulsar(t)
	addrs, prefix := testenv.Redis(t)
	user, rest, ok := strings.Cut(testenv.MySQL(t), "@tcp(")
	require.True(t, ok)
	server, database, ok := strings.Cut(rest, ")")
	require.True(t, ok)
	proxy := testenv.NewProxy(t, "127.0.0.1:0", server)
	env := envWith(
		"CARILLON_MYSQL_DSN", user+"@tcp("+proxy.Addr()+")"+database,
		"CARILLON_REDIS_ADDRS", strings.Join(addrs, ","), "CARILLON_REDIS_PREFIX", prefix,
		"CARILLON_PULSAR_URL", place.URL, "CARILLON_PULSAR_ADMIN_URL", place.AdminURL,
		"CARILLON_PULSAR_TENANT", place.Tenant, "CARILLON_PULSAR_NAMESPACE", place.Namespace,
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, done := &output{}, make(chan error, 1)
	go func() { done <- wiring.Service(wiring.Trigger())(ctx, nil, env, io.Discard, out) }()

	const patience = time.Minute
	logged := func(parts ...string) bool {
		for line := range strings.Lines(out.text()) {
			all := strings.Contains(line, `"server":"mysql"`)
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				return true
			}
		}
		return false
	}
	ready := func(want int) func() bool {
		return func() bool { code, _ := readiness(t, out); return code == want }
	}
	require.Eventually(t, ready(http.StatusOK), patience, 100*time.Millisecond)
	release := proxy.Hold()
	defer release()
	require.Eventually(t, ready(http.StatusServiceUnavailable), patience, 100*time.Millisecond)
	_, problems := readiness(t, out)
	require.Contains(t, problems["mysql"], "mysql-dsn at "+proxy.Addr())
	require.Eventually(t, func() bool {
		return logged(`"level":"warn"`, "server unavailable", "mysql-dsn at "+proxy.Addr())
	}, patience, 100*time.Millisecond)
	release()
	require.Eventually(t, ready(http.StatusOK), patience, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		return logged(`"level":"info"`, "server available again")
	}, patience, 100*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}
