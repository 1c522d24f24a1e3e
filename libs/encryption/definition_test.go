package encryption_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestReencryptDefinition(t *testing.T) {
	t.Parallel()
	k1, k2 := encryption.NewKey("k1").Reveal(), encryption.NewKey("k2").Reveal()
	ring := func(text string) *encryption.Keyring {
		r, err := encryption.ParseKeyring(encryption.NewSecret(text))
		require.NoError(t, err)
		return r
	}
	b := encryption.Binding{App: "shop", Use: encryption.UseTarget}
	under := func(r *encryption.Keyring) timer.Definition {
		one := func(text string) timer.Sealed { return r.Seal(encryption.NewSecret(text), b) }
		target := func(n string) timer.Target {
			return timer.Target{
				SecretHeaders: map[string]timer.Sealed{
					"X-K": one("header" + n),
				},
				TLS: &timer.TLS{Cert: "c", Key: one("key" + n)},
				OAuth2: &timer.OAuth2{
					ClientID:     "me",
					Secret:       one("oauth" + n),
					SecretParams: map[string]timer.Sealed{"password": one("param" + n)},
				},
			}
		}
		return timer.Definition{
			Target: target("1"),
			Fanout: timer.Fanout{
				Targets: []timer.Target{target("2"), {URL: "https://example.com/"}},
			},
		}
	}
	old, both := ring(k1), ring(k2+","+k1)
	had := under(old)
	got, changed, err := both.ReencryptDefinition(had, "shop")
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, under(both), got)
	require.Equal(t, under(old), had, "it is the caller's")
	_, changed, err = both.ReencryptDefinition(got, "shop")
	require.NoError(t, err)
	require.False(t, changed)

	others := both.Others()
	require.Len(t, others, 1)
	require.Equal(t, "k1", others[0].First())
	back, _, err := others[0].ReencryptDefinition(got, "shop")
	require.NoError(t, err)
	require.Equal(t, had, back, "what the other key sealed")
	require.Empty(t, old.Others())

	_, _, err = both.ReencryptDefinition(had, "desk")
	require.ErrorIs(t, err, encryption.ErrMismatch)
	_, _, err = ring(k2).ReencryptDefinition(had, "shop")
	require.ErrorIs(t, err, encryption.ErrUnknownKey)
}
