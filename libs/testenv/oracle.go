package testenv

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Oracle returns where a script installed a program of others that a test compares with: the value
// of the environment variable. what says what the test does with it. Without the variable the test
// is skipped, or fails where CARILLON_TEST_REQUIRE names oracles.
func Oracle(t testing.TB, variable, script, what string) string {
	t.Helper()
	if v := os.Getenv(variable); v != "" {
		return v
	}
	if slices.Contains(strings.Split(os.Getenv("CARILLON_TEST_REQUIRE"), ","), "oracles") {
		t.Fatalf(
			"CARILLON_TEST_REQUIRE names oracles, but %s is not set: set it to what %s prints",
			variable,
			script,
		)
	}
	t.Skipf(
		"!!! SKIPPED, UNTESTED: %s %s, and %s is not set (to what %s prints)",
		t.Name(),
		what,
		variable,
		script,
	)
	return ""
}
