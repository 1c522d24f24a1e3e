package redisstate_test

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/limit/redisstate"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// TestTLS shares limits through a port that demands a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	addrs, prefix, files := testenv.RedisTLS(t)
	client, err := certfile.LoadClient("redis-tls", files.Files, zerolog.Nop())
	require.NoError(t, err)
	o := redisstate.Options{Addrs: addrs, Prefix: prefix, Timeout: 5 * time.Second}
	require.Error(t, newState(t, o).Ping(t.Context()), "without TLS")
	o.Dial = client.DialContext
	require.NoError(t, newState(t, o).Ping(t.Context()))
}
