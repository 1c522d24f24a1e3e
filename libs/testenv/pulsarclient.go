package testenv

import "testing"

// PulsarClient returns a Python interpreter with the stock Pulsar client. scripts/pulsar-client.sh
// installs it.
func PulsarClient(t testing.TB) (python string) {
	t.Helper()
	return require(t, "python", "CARILLON_TEST_PULSAR_CLIENT")
}
