package wiring_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/services/wiring"
)

// TestUntrustedServers starts a service that trusts no server, and checks that it says what to do.
// When the file is replaced, it becomes ready without a restart.
func TestUntrustedServers(t *testing.T) {
	t.Parallel()
	dsn, files := testenv.MySQLTLS(t)
	addrs, prefix, _ := testenv.RedisTLS(t)
	place, _ := testenv.PulsarTLS(t)
	env := []string{
		"CARILLON_MYSQL_DSN", dsn, "CARILLON_MYSQL_TLS", "true",
		"CARILLON_REDIS_ADDRS", strings.Join(addrs, ","), "CARILLON_REDIS_TLS", "true",
		"CARILLON_REDIS_PREFIX", prefix,
		"CARILLON_PULSAR_URL", place.URL, "CARILLON_PULSAR_ADMIN_URL", place.AdminURL,
		"CARILLON_PULSAR_TENANT", place.Tenant, "CARILLON_PULSAR_NAMESPACE", place.Namespace,
	}
	for _, server := range []string{"MYSQL", "REDIS", "PULSAR"} {
		env = append(env, "CARILLON_"+server+"_TLS_CA", files.CA,
			"CARILLON_"+server+"_TLS_CERT", files.Cert, "CARILLON_"+server+"_TLS_KEY", files.Key)
	}
	files.InstallWrongAuthority(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, done := &output{}, make(chan error, 1)
	run := wiring.Service(wiring.Trigger())
	go func() { done <- run(ctx, nil, envWith(env...), io.Discard, out) }()

	const patience = 2 * time.Minute
	require.Eventually(t, func() bool {
		_, problems := readiness(t, out)
		return strings.Contains(problems["mysql"], "mysql-tls-ca needs the authority") &&
			strings.Contains(problems["redis at start"], "redis-tls-ca needs the authority") &&
			strings.Contains(problems["pulsar"], "pulsar-tls-ca needs the authority")
	}, patience, 100*time.Millisecond)
	files.InstallRight(t)
	require.Eventually(t, func() bool {
		code, _ := readiness(t, out)
		return code == http.StatusOK
	}, patience, 100*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

// readiness returns the status of /readyz and its errors by check, or 0 before there is one.
func readiness(t *testing.T, out *output) (code int, problems map[string]string) {
	t.Helper()
	addr := out.admin()
	if addr == "" {
		return 0, nil
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	var got struct {
		Checks []struct{ Name, Error string }
	}
	if json.NewDecoder(resp.Body).Decode(&got) != nil {
		return 0, nil
	}
	problems = make(map[string]string)
	for _, c := range got.Checks {
		problems[c.Name] = c.Error
	}
	return resp.StatusCode, problems
}
