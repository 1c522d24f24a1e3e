package rediswindow_test

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// TestTLS connects to a port that demands a certificate, and replaces the files of the client.
func TestTLS(t *testing.T) {
	t.Parallel()
	addrs, prefix, files := testenv.RedisTLS(t)
	open := func(f certfile.Files) *rediswindow.Window {
		client, err := certfile.LoadClient("redis-tls", f, zerolog.Nop())
		require.NoError(t, err)
		return newWindow(
			t,
			rediswindow.Options{Addrs: addrs, Prefix: prefix, Dial: client.DialContext},
		)
	}
	require.NoError(t, open(files.Files).Ping(t.Context()))
	require.Error(
		t,
		newWindow(t, rediswindow.Options{Addrs: addrs, Prefix: prefix}).Ping(t.Context()),
		"without TLS",
	)
	require.Error(
		t,
		open(certfile.Files{CA: files.CA}).Ping(t.Context()),
		"without a certificate",
	)

	// Each of these windows connects for the first time after its files have changed.
	w := open(files.Files)
	files.InstallWrongPair(t)
	require.Error(t, w.Ping(t.Context()))
	files.InstallRight(t)
	require.NoError(t, w.Ping(t.Context()), "the certificate was replaced")

	w = open(files.Files)
	files.InstallWrongAuthority(t)
	require.ErrorContains(t, w.Ping(t.Context()), "unknown authority")
	files.InstallRight(t)
	require.NoError(t, w.Ping(t.Context()), "the authority was replaced")
}
