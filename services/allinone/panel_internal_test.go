package allinone

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/wiring"
)

// TestExampleNamesItsAPI checks that the command in the panel creates its timer in this process,
// whatever deployment the variables and contexts of the other terminal name.
func TestExampleNamesItsAPI(t *testing.T) {
	t.Parallel()
	k := &wiring.Kit{Settings: &wiring.Settings{}, Keyless: true}
	for _, at := range []string{"http://127.0.0.1:8080", "https://127.0.0.1:8443"} {
		require.Contains(t, example(k, at), " --api "+at)
	}
}
