package testenv

import "testing"

// PulsarClient returns a Python that has the stock Pulsar client (scripts/pulsar-client.sh makes
// one).
func PulsarClient(t testing.TB) (python string) {
	t.Helper()
	return require(t, "python", "CARILLON_TEST_PULSAR_CLIENT")
}
