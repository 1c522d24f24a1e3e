package wiring

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestUnreadableSecretsAreReported checks the report of secrets whose key is missing or another one,
// and that it ends.
func TestUnreadableSecretsAreReported(t *testing.T) {
	t.Parallel()
	ring := func(id string) *encryption.Keyring {
		r, err := encryption.ParseKeyring(encryption.NewKey(id))
		require.NoError(t, err)
		return r
	}
	b := encryption.Binding{App: "shop", Use: encryption.UseTarget}
	own := ring("k1")
	for name, sealed := range map[string]timer.Sealed{
		"another id":  ring("k0").Seal(encryption.NewSecret("hunter2"), b),
		"another key": ring("k1").Seal(encryption.NewSecret("hunter2"), b),
	} {
		k := &Kit{
			Keyring:  own,
			Log:      zerolog.Nop(),
			Registry: prometheus.NewRegistry(),
			Health:   health.New(time.Second),
		}
		w, err := k.watchSecrets()
		require.NoError(t, err)
		again, err := k.watchSecrets()
		require.NoError(t, err)
		require.Same(t, w, again, name)
		now := time.Now()
		w.now = func() time.Time { return now }

		secret, err := w.Open(own.Seal(encryption.NewSecret("hunter3"), b), b)
		require.NoError(t, err)
		require.Equal(t, "hunter3", secret.Reveal())
		require.NoError(t, w.check(t.Context()))

		_, err = w.Open(sealed, b)
		require.Error(t, err, name)
		require.InDelta(t, 1, testutil.ToFloat64(w.failed), 0)
		now = now.Add(secretsFailedFor)
		require.ErrorContains(t, w.check(t.Context()), `a secret of app "shop": `, name)
		require.ErrorContains(t, w.check(t.Context()), "(10m0s ago)")
		now = now.Add(time.Second)
		require.NoError(t, w.check(t.Context()), name)
	}
}
