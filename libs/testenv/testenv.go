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
