package cli

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// behind is a store in which another process writes during a pass over the definitions.
type behind struct {
	store.Store

	write func()
}

func (b *behind) AllSigningKeys(
	ctx context.Context,
	after timer.ID,
	limit int,
) ([]store.SigningKey, error) {
	b.write()
	return b.Store.AllSigningKeys(ctx, after, limit)
}

// TestReencryptFindsConcurrentWrites checks that a concurrent write is found before the command
// reports success; if they do not end, it never does.
func TestReencryptFindsConcurrentWrites(t *testing.T) {
	t.Parallel()
	k1, k2 := encryption.NewKey("k1").Reveal(), encryption.NewKey("k2").Reveal()
	ring := func(text string) *encryption.Keyring {
		r, err := encryption.ParseKeyring(encryption.NewSecret(text))
		require.NoError(t, err)
		return r
	}
	old, both := ring(k1), ring(k2+","+k1)
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	n := 0
	write := func() {
		n++
		made, err := st.Create(
			t.Context(),
			[]store.NewTimer{
				{App: "shop", Name: time.Duration(n).String(), Definition: timer.Definition{
					Schedule: timer.Schedule{
						Kind:  timer.KindCron,
						Specs: []string{"@daily"},
					},
					Retry: timer.DefaultRetry(),
					Target: timer.Target{
						Kind: timer.KindHTTP,
						URL:  "https://example.com/",
						SecretHeaders: map[string]timer.Sealed{
							"X-K": old.Seal(
								encryption.NewSecret("hunter2"),
								encryption.Binding{App: "shop", Use: encryption.UseTarget},
							),
						},
					},
				}},
			},
			nil,
		)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
	}
	write()
	b := &behind{Store: st, write: func() {
		if n < 4 {
			write()
		}
	}}
	var out bytes.Buffer
	require.NoError(t, reencryptAll(t.Context(), b, both, 0, &out))
	require.Equal(t, 4, n)
	page, _, err := st.SealedVersions(t.Context(), store.VersionKey{}, 100)
	require.NoError(t, err)
	require.Len(t, page, 4)
	for _, d := range page {
		_, err := ring(
			k2,
		).Open(d.Target.SecretHeaders["X-K"], encryption.Binding{App: "shop", Use: encryption.UseTarget})
		require.NoError(t, err)
	}
	require.Contains(
		t,
		out.String(),
		`done: 4 definitions and signing keys checked, 4 reencrypted under "k2", 0 failed`,
	)

	b.write = write
	write()
	out.Reset()
	require.ErrorContains(
		t,
		reencryptAll(t.Context(), b, both, 0, &out),
		"give every service the new keyring first",
	)
	require.NotContains(t, out.String(), "done")
}
