package pulsarbus_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// requirePingError pings a broker until the error has the text, and names the broker.
func requirePingError(t *testing.T, c pulsarbus.Config, want string) {
	t.Helper()
	b, err := pulsarbus.New(pulsarbus.Options{Config: c, Log: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	_, host, ok := strings.Cut(c.URL, "://")
	require.True(t, ok)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.Ping(ctx)
		require.Error(t, err)
		return strings.Contains(err.Error(), want) && strings.Contains(err.Error(), host)
	}, patience, time.Millisecond, want)
}

// TestPingSaysWhyThereIsNoConnection: the client's calls return only that there is no answer.
func TestPingSaysWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	at := func(url string) pulsarbus.Config {
		return pulsarbus.Config{URL: url, AdminURL: "http://127.0.0.1:1"}
	}
	requirePingError(t, at("pulsar://127.0.0.1:1"), "connection refused")

	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, and nobody answers
	require.NoError(t, err)
	requirePingError(t, at("pulsar://"+silent.Addr().String()), "does not answer the handshake")
	require.NoError(t, silent.Close())
}

func TestPingSaysWhyABrokerRefuses(t *testing.T) {
	t.Parallel()
	place, files := testenv.PulsarTLS(t)
	c := configTLS(t, place, files.Files)
	plain := c
	plain.URL = strings.Replace(c.URL, "pulsar+ssl://", "pulsar://", 1)
	requirePingError(t, plain, "EOF")
	requirePingError(t, configTLS(t, place, certfile.Files{}), "unknown authority")
	requirePingError(t, configTLS(t, place, certfile.Files{CA: files.CA}), "certificate required")
}
