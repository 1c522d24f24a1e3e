package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestServersOfOthersAreLeftOut checks that servers count only beside a service that may use them.
func TestServersOfOthersAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"carillon": 2, "carillon-receiver": 2, "carillon-executor": 4,
	} {
		all := map[string]use{name: {}, "bench": {}, "Redis": {}, "Pulsar": {}}
		require.Len(t, ofDeployment(all), want, name)
	}
}
