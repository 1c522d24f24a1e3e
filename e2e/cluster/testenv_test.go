package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRealServersAreIsolated(t *testing.T) {
	t.Parallel()
	a, freeA, err := RealServers()
	if errors.Is(err, ErrNoServers) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer freeA()
	b, freeB, err := RealServers()
	require.NoError(t, err)
	defer freeB()
	require.NotEqual(t, a.MySQLDSN, b.MySQLDSN)
	require.NotEqual(t, a.RedisPrefix, b.RedisPrefix)
	require.NotEqual(t, a.PulsarNamespace, b.PulsarNamespace)
	require.NotEmpty(t, a.PulsarURL)
}
