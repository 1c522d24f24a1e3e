// Package testenv gives tests real servers: MySQL, Redis, Redis Cluster and Pulsar, and in them a place of their own that is
// removed when the test ends. The servers are those that scripts/servers.sh started; the file that it wrote sets the
// environment by which they are found (CARILLON_TEST_MYSQL_DSN, CARILLON_TEST_REDIS_ADDRS, …).
//
// Without a server a test is skipped, and says what went untested. Where CARILLON_TEST_REQUIRE names the server (a comma list
// of mysql, redis, redis-cluster, pulsar; set in CI; redis covers redis-cluster), it fails.
//
// As go test keeps the words of a passing run to itself, each skip is also a line in the file that CARILLON_TEST_SKIPPED
// names, if it is set.
package testenv

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
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
		t.Fatalf("CARILLON_TEST_REQUIRE names %s, but %s is not set: run scripts/servers.sh up DIR and source DIR/env", server, variable)
	}
	line := fmt.Sprintf("!!! SKIPPED, UNTESTED: %s needs a real %s server, and %s is not set (scripts/servers.sh up DIR; . DIR/env)",
		t.Name(), server, variable)
	note(t, line)
	t.Skip(line)
	return ""
}

// note appends a line for those who started the run. Several test programs write at once: one write each.
func note(t testing.TB, line string) {
	t.Helper()
	path := os.Getenv("CARILLON_TEST_SKIPPED")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // who runs the tests names the file
	if err != nil {
		t.Errorf("noting what is skipped: %v", err)
		return
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Errorf("noting what is skipped: %v", err)
	}
}

// unique returns a name that no other test has, of lower-case letters, digits and underscores.
func unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "test_" + hex.EncodeToString(b[:])
}
