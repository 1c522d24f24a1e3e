package pulsarbus_test

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus/pulsarauth"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// TestOAuth2 logs in with the tokens of an issuer, over TLS with a client certificate.
func TestOAuth2(t *testing.T) {
	t.Parallel()
	place, files := testenv.PulsarTLS(t)
	issuer := testenv.PulsarIssuer(t)
	open := func() *pulsarbus.Bus {
		c := configTLS(t, place, files.Files)
		var err error
		c.Tokens, err = pulsarauth.NewTokenSource(
			pulsarauth.Options{Issuer: issuer.URL, KeyFile: issuer.KeyFile},
		)
		require.NoError(t, err)
		b, err := pulsarbus.New(pulsarbus.Options{Config: c, Log: zerolog.Nop()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
	b := open()
	require.Zero(t, issuer.Issued.Load(), "New does not connect")
	requireDelivers(t, b)
	require.EqualValues(t, 1, issuer.Issued.Load(), "topics and the admin API share a token")

	issuer.Forge.Store(true)
	b = open()
	require.Error(t, b.Ping(t.Context()), "Pulsar checks the token")
	require.EqualValues(t, 2, issuer.Issued.Load())
}
