package wiring

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/peers"
)

// TestSharedSettingsExist checks that a setting that was renamed is still compared.
func TestSharedSettingsExist(t *testing.T) {
	t.Parallel()
	s := &Settings{}
	var parts []config.Part
	for _, part := range slices.Concat(
		s.common(), s.servers(), API().Needs(s), Migrator().Needs(s), Executor().Needs(s),
	) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	var names []string
	for _, v := range config.NewSet("test", parts...).Values() {
		names = append(names, v.Name)
	}
	require.Subset(t, names, append(sharedSettings, peers.EncryptionKeys))
}
