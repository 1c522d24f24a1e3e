// Package testenv gives tests real servers: MySQL, Galera, Redis, Redis Cluster, Redis with Sentinel,
// Pulsar and a Pulsar cluster. Each test gets its own database, prefix or namespace, which is removed
// when the test ends. scripts/servers.sh starts the servers. The file that it writes sets the
// environment variables that locate them (CARILLON_TEST_MYSQL_DSN, CARILLON_TEST_REDIS_ADDRS, …).
//
// If a server is missing, the test is skipped with a message about what was not tested. If
// CARILLON_TEST_REQUIRE names the server, the test fails instead. CARILLON_TEST_REQUIRE is a
// comma-separated list of mysql, galera, redis, redis-cluster, redis-sentinel, pulsar, pulsar-cluster
// and python; redis includes redis-cluster and redis-sentinel; pulsar does not include
// pulsar-cluster. CI sets it. python is an interpreter with the stock Pulsar client.
package testenv

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const timeout = 30 * time.Second // for creating or removing a database, namespace or set of keys

// require returns the value of the environment variable that locates a server.
func require(t testing.TB, server, variable string) string {
	t.Helper()
	if v := os.Getenv(variable); v != "" {
		return v
	}
	required := strings.Split(os.Getenv("CARILLON_TEST_REQUIRE"), ",")
	covered := server
	if strings.HasPrefix(server, "redis-") {
		covered = "redis"
	}
	if slices.Contains(required, server) || slices.Contains(required, covered) {
		t.Fatalf(
			"CARILLON_TEST_REQUIRE names %s, but %s is not set: run scripts/servers.sh up DIR and source DIR/env",
			server,
			variable,
		)
	}
	t.Skipf(
		"!!! SKIPPED, UNTESTED: %s needs a real %s, and %s is not set (scripts/servers.sh up DIR; . DIR/env; python: scripts/pulsar-client.sh)",
		t.Name(),
		server,
		variable,
	)
	return ""
}

// unique returns a name that no other test has, of lower-case letters, digits and underscores.
func unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "test_" + hex.EncodeToString(b[:])
}
