// Package testenv gives tests real servers: MySQL, Redis, Redis Cluster and Pulsar, and in them a
// place of their own that is removed when the test ends. The servers are those that
// scripts/servers.sh started; the file that it wrote sets the environment by which they are found
// (CARILLON_TEST_MYSQL_DSN, CARILLON_TEST_REDIS_ADDRS, …).
//
// Without a server a test is skipped, and says what went untested. Where CARILLON_TEST_REQUIRE
// names the server (a comma list of mysql, redis, redis-cluster, pulsar, python; set in CI; redis
// covers redis-cluster), it fails. python is one with the stock Pulsar client.
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

const timeout = 30 * time.Second // of making or removing a place

// require returns the value of an environment variable that says where a server is.
func require(t testing.TB, server, variable string) string {
	t.Helper()
	if v := os.Getenv(variable); v != "" {
		return v
	}
	required := strings.Split(os.Getenv("CARILLON_TEST_REQUIRE"), ",")
	covered, _, _ := strings.Cut(server, "-")
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
