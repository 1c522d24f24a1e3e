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

// rotation is a store with a timer whose secret is under an old key.
type rotation struct {
	store           *sqlstore.Store
	old, both, next *encryption.Keyring
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	k1, k2 := encryption.NewKey("k1").Reveal(), encryption.NewKey("k2").Reveal()
	ring := func(text string) *encryption.Keyring {
		r, err := encryption.ParseKeyring(encryption.NewSecret(text))
		require.NoError(t, err)
		return r
	}
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	r := &rotation{store: st, old: ring(k1), both: ring(k2 + "," + k1), next: ring(k2)}
	r.create(t, "first")
	return r
}

// create makes a timer whose secret is under the old key.
func (r *rotation) create(t *testing.T, name string) {
	t.Helper()
	made, err := r.store.Create(
		t.Context(),
		[]store.NewTimer{
			{App: "shop", Name: name, Definition: timer.Definition{
				Schedule: timer.Schedule{
					Kind:  timer.KindCron,
					Specs: []string{"@daily"},
				},
				Retry: timer.DefaultRetry(),
				Target: timer.Target{
					Kind: timer.KindHTTP,
					URL:  "https://example.com/",
					SecretHeaders: map[string]timer.Sealed{
						"X-K": r.old.Seal(
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

// TestReencryptFindsConcurrentWrites checks that a concurrent write is found before the command
// reports success; if they do not end, it never does.
func TestReencryptFindsConcurrentWrites(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	st, n := r.store, 1
	write := func() {
		n++
		r.create(t, time.Duration(n).String())
	}
	b := &behind{Store: st, write: func() {
		if n < 4 {
			write()
		}
	}}
	var out bytes.Buffer
	require.NoError(t, reencryptAll(t.Context(), b, r.both, 0, &out))
	require.Equal(t, 4, n)
	page, _, err := st.SealedVersions(t.Context(), store.VersionKey{}, 100)
	require.NoError(t, err)
	require.Len(t, page, 4)
	for _, d := range page {
		_, err := r.next.Open(
			d.Target.SecretHeaders["X-K"],
			encryption.Binding{App: "shop", Use: encryption.UseTarget},
		)
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
		reencryptAll(t.Context(), b, r.both, 0, &out),
		"give every service the new keyring first",
	)
	require.NotContains(t, out.String(), "done")
}

// removing is a store in which timers and signing keys are removed right after they are read.
type removing struct {
	*sqlstore.Store

	states []timer.State // those that are left once a page is read
}

func (r *removing) States(context.Context, []timer.ID) ([]timer.State, error) {
	return r.states, nil
}

func (*removing) Reseal(context.Context, store.VersionKey, timer.Definition) error {
	return timer.NotFound("version", "1")
}

func (*removing) ResealSigningKey(context.Context, store.SigningKey) error {
	return timer.NotFound("signing key", "1")
}

// TestReencryptLeavesOutWhatIsRemoved checks that what is removed during a pass is no failure.
func TestReencryptLeavesOutWhatIsRemoved(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.create(t, "second")
	require.NoError(t, r.store.AddSigningKey(t.Context(), "shop", store.SigningKey{
		ID: 1, App: "shop", Kind: "hmac", Secret: r.old.Seal(
			encryption.NewSecret("hunter2"),
			encryption.Binding{App: "shop", Use: encryption.UseSigning},
		),
	}))
	page, _, err := r.store.SealedVersions(t.Context(), store.VersionKey{}, 100)
	require.NoError(t, err)
	require.Len(t, page, 2)
	removed := &removing{Store: r.store}
	for key := range page { // one is removed before States, the other before Reseal
		removed.states = []timer.State{{ID: key.Timer, App: "shop"}}
	}
	var out bytes.Buffer
	require.NoError(t, reencryptAll(t.Context(), removed, r.both, 0, &out))
	require.Contains(t, out.String(), "0 reencrypted")
	require.Contains(t, out.String(), ", 0 failed")
}

// partlyUnreadable is a store in which one definition cannot be read.
type partlyUnreadable struct {
	*sqlstore.Store

	key store.VersionKey
}

func (u *partlyUnreadable) SealedVersions(
	ctx context.Context, after store.VersionKey, limit int,
) (map[store.VersionKey]*timer.Definition, store.VersionKey, error) {
	found, last, err := u.Store.SealedVersions(ctx, after, limit)
	if _, there := found[u.key]; there {
		found[u.key] = &timer.Definition{Unreadable: "reading version 1: a newer release wrote it"}
	}
	return found, last, err //nolint:wrapcheck // a test
}

// TestReencryptPassesWhatItCannotRead checks that what cannot be read keeps its old key, and that
// everything behind it is reached, by a restore's check too.
func TestReencryptPassesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	r := newRotation(t)
	r.create(t, "second")
	require.NoError(t, r.store.AddSigningKey(t.Context(), "shop", store.SigningKey{
		ID: 1, App: "shop", Kind: "hmac", Secret: r.old.Seal(
			encryption.NewSecret("hunter2"),
			encryption.Binding{App: "shop", Use: encryption.UseSigning},
		),
	}))
	page, _, err := r.store.SealedVersions(t.Context(), store.VersionKey{}, 1)
	require.NoError(t, err)
	u := &partlyUnreadable{Store: r.store}
	for u.key = range page { // the first one
	}
	check := &secretCheck{store: u, keyring: r.both}
	require.NoError(t, check.run(t.Context()))
	require.Contains(
		t,
		check.result(""),
		"1 definitions may have secrets, which were not checked: "+
			"reading version 1: a newer release wrote it",
	)
	require.Contains(t, check.result(""), "2 definitions and signing keys have secrets, and the")

	var out bytes.Buffer
	require.ErrorContains(
		t, reencryptAll(t.Context(), u, r.both, 0, &out), "the carillon reencrypt of that release")
	require.Contains(
		t,
		out.String(),
		"was not reencrypted: reading version 1: a newer release wrote it",
	)
	require.Contains(t, out.String(),
		`done: 3 definitions and signing keys checked, 2 reencrypted under "k2", 1 failed`)
}
