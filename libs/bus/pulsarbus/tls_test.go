package pulsarbus_test

import (
	"context"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// openTLS returns a bus that has not connected yet.
func openTLS(t *testing.T, p testenv.PulsarNamespace, f certfile.Files) *pulsarbus.Bus {
	t.Helper()
	b, err := pulsarbus.New(pulsarbus.Options{Config: configTLS(t, p, f), Log: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func configTLS(t *testing.T, p testenv.PulsarNamespace, f certfile.Files) pulsarbus.Config {
	t.Helper()
	client, err := certfile.LoadClient("pulsar-tls", f, zerolog.Nop())
	require.NoError(t, err)
	return pulsarbus.Config{
		URL: p.URL, AdminURL: p.AdminURL, Tenant: p.Tenant, Namespace: p.Namespace, TLS: client,
	}
}

// TestTLS uses ports that demand a certificate, for topics and for the admin API.
func TestTLS(t *testing.T) {
	t.Parallel()
	place, files := testenv.PulsarTLS(t)
	requireDelivers(t, openTLS(t, place, files.Files))

	external, err := pulsarbus.NewExternalPublisher(
		configTLS(t, place, files.Files),
		zerolog.Nop(),
	)
	require.NoError(t, err)
	defer external.Close()
	require.NoError(t, external.Publish(t.Context(), pulsarbus.ExternalMessage{
		Topic: "persistent://" + place.Tenant + "/" + place.Namespace + "/" + string(bus.Outcomes),
	}))
}

// requireDelivers sets up the topics, and sends a message through one of them.
func requireDelivers(t *testing.T, b *pulsarbus.Bus) {
	t.Helper()
	require.NoError(t, b.Setup(t.Context(), bus.Topics(1)))
	got := make(chan string, 1)
	_, err := b.Subscribe(
		t.Context(),
		executors,
		func(_ context.Context, batch []bus.Message) []error {
			got <- string(batch[0].Payload)
			return nil
		},
	)
	require.NoError(t, err)
	require.NoError(t, b.Publish(t.Context(), executors.Topic, bus.Message{Payload: []byte("x")}))
	select {
	case payload := <-got:
		require.Equal(t, "x", payload)
	case <-t.Context().Done():
	}
}

// TestTLSFilesChange replaces the files of buses that have not connected yet.
func TestTLSFilesChange(t *testing.T) {
	t.Parallel()
	place, files := testenv.PulsarTLS(t)
	require.Error(
		t,
		openTLS(t, place, certfile.Files{CA: files.CA}).Ping(t.Context()),
		"without a certificate",
	)

	b := openTLS(t, place, files.Files)
	files.InstallWrongPair(t)
	require.Error(t, b.Ping(t.Context()))
	files.InstallRight(t)
	require.NoError(t, b.Ping(t.Context()), "the certificate was replaced")
	require.NoError(t, b.Setup(t.Context(), nil))

	b = openTLS(t, place, files.Files)
	files.InstallWrongAuthority(t)
	require.Error(t, b.Ping(t.Context()))
	files.InstallRight(t)
	require.NoError(t, b.Ping(t.Context()), "the authority was replaced")
	require.NoError(t, b.Setup(t.Context(), nil))
}

// TestTLSChecksTheName connects by an address that the broker's certificate does not name.
func TestTLSChecksTheName(t *testing.T) {
	t.Parallel()
	place, files := testenv.PulsarTLS(t)
	place.URL = "pulsar+ssl://" + newProxy(t, "127.0.0.1:0", place.URL).Addr()
	require.NoError(t, openTLS(t, place, files.Files).Ping(t.Context()))
	place.URL = "pulsar+ssl://" + newProxy(t, "127.0.0.2:0", place.URL).Addr()
	require.Error(t, openTLS(t, place, files.Files).Ping(t.Context()))
}
