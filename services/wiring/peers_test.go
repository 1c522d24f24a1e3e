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

// TestProcessesThatDoNotBelongTogether has an executor with the database, but not the settings of
// the others, and one with another database.
func TestProcessesThatDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	addrs, prefix := testenv.Redis(t)
	place := testenv.Pulsar(t)
	env := []string{
		"CARILLON_MYSQL_DSN", testenv.MySQL(t),
		"CARILLON_REDIS_ADDRS", strings.Join(addrs, ","), "CARILLON_REDIS_PREFIX", prefix,
		"CARILLON_PULSAR_URL", place.URL, "CARILLON_PULSAR_ADMIN_URL", place.AdminURL,
		"CARILLON_PULSAR_TENANT", place.Tenant, "CARILLON_PULSAR_NAMESPACE", place.Namespace,
		"CARILLON_CALLBACK_ALLOW", "10.0.0.0/8",
	}
	start := func(role wiring.Role, changes ...string) (out *output) {
		ctx, cancel := context.WithCancel(t.Context())
		out, done := &output{}, make(chan error, 1)
		run := wiring.Service(role)
		go func() { done <- run(ctx, nil, envWith(append(env, changes...)...), io.Discard, out) }()
		t.Cleanup(func() {
			cancel()
			require.NoError(t, <-done)
		})
		return out
	}
	eventually := func(out *output, texts ...string) {
		t.Helper()
		var have string
		require.Eventually(t, func() bool {
			_, problems := readiness(t, out)
			have = problems["deployment"]
			for _, text := range texts {
				if !strings.Contains(have, text) {
					return false
				}
			}
			return problems != nil && (len(texts) > 0) == (have != "")
		}, 3*time.Minute, 100*time.Millisecond)
	}
	api := start(wiring.API(), "CARILLON_AUTH", "off")
	eventually(api)
	differs := start(wiring.Executor(), "CARILLON_CALLBACK_ALLOW", "192.168.0.0/16")
	both := `callback-allow: expected the same value in all processes, found "10.0.0.0/8" (`
	eventually(differs, both)
	eventually(api, both)

	other := start(wiring.Executor(), "CARILLON_MYSQL_DSN", testenv.MySQL(t))
	eventually(
		other,
		"redis-prefix: expected one database",
		"pulsar-namespace: expected one database",
	)
	eventually(differs, both, "pulsar-namespace: expected one database")
}
