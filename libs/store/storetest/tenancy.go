package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// appLog returns a function that counts the entries of the change log about an app since its last
// call.
func (s *setup) appLog(app int64) func() int {
	last, err := s.st().LastChange(s.t.Context())
	require.NoError(s.t, err)
	return func() (n int) {
		s.t.Helper()
		changes, err := s.st().Changes(s.t.Context(), last, 1000)
		require.NoError(s.t, err)
		for _, c := range changes {
			last = c.Seq
			if c.AppID == app {
				require.Empty(s.t, c.State)
				n++
			}
		}
		return n
	}
}

func settingsAreReplaced(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	logged := s.appLog(tm.AppID)
	first := store.AppSettings{
		Rate:       12.5,
		Burst:      30,
		Concurrent: 7,
		Allow:      []string{"10.0.0.0/8", "till:443"},
	}
	app, err := s.st().PutSettings(ctx, "app", first, 0)
	require.NoError(t, err)
	require.Equal(t, store.App{ID: tm.AppID, Name: "app", Settings: first, Version: 1}, app)
	require.Equal(t, 1, logged())
	for _, version := range []int64{0, 1, 77} {
		again, err := s.st().PutSettings(ctx, "app", first, version)
		require.NoError(t, err)
		require.Equal(t, app, again, "the fires exist already")
	}
	require.Zero(t, logged())
	second := store.AppSettings{Rate: 1}
	_, err = s.st().PutSettings(ctx, "app", second, 2)
	requireCode(t, timer.CodeConflict, err)
	frozen, err := s.st().SetFrozen(ctx, "app", true, "bill")
	require.NoError(t, err)
	require.Equal(t, first, frozen.Settings)
	app, err = s.st().PutSettings(ctx, "app", second, 1)
	require.NoError(t, err)
	require.Equal(t, second, app.Settings, "as a whole")
	require.EqualValues(t, 2, app.Version)
	require.True(t, app.Frozen)
	require.Equal(t, 2, logged())
	got, err := s.st().App(ctx, "app")
	require.NoError(t, err)
	require.Equal(t, app, got)

	made, err := s.st().PutSettings(ctx, "new", first, 0)
	require.NoError(t, err)
	apps, err := s.st().AppsByID(ctx, []int64{made.ID, tm.AppID, made.ID, 987_654_321})
	require.NoError(t, err)
	require.ElementsMatch(t, []store.App{app, made}, apps)
	apps, err = s.st().AppsByID(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, apps)

	var won atomic.Int64
	s.together(8, func(ctx context.Context, i int, st store.Store) error {
		_, err := st.PutSettings(ctx, "app", store.AppSettings{Burst: i + 1}, 2)
		if timer.CodeOf(err) == timer.CodeConflict {
			return nil
		}
		won.Add(1)
		return err
	})
	require.EqualValues(t, 1, won.Load(), "one of the calls with the same version wins")
	require.Equal(t, 1, logged())
}

func signingKeys(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	logged := s.appLog(tm.AppID)
	keys := func(app string) []store.SigningKey {
		t.Helper()
		out, err := s.st().SigningKeys(ctx, app)
		require.NoError(t, err)
		return out
	}
	require.Empty(t, keys("app"))
	require.Empty(t, keys("nobody"))
	key := func(kind string) store.SigningKey {
		id := s.ids.Next()
		return store.SigningKey{
			ID:        id,
			App:       "app",
			Kind:      kind,
			Secret:    timer.Sealed("cs1.k." + id.String()),
			CreatedMS: int64(id),
		}
	}
	a, b, c := key("hmac"), key("hmac"), key("ed25519")
	c.Public = "whpk_x"
	for range 2 {
		for _, k := range []store.SigningKey{a, b, c} {
			require.NoError(t, s.st().AddSigningKey(ctx, "app", k))
		}
	}
	require.Equal(t, 3, logged(), "repeated, nothing changes")
	require.Equal(t, []store.SigningKey{c, b, a}, keys("app"), "the newest first")
	requireCode(t, timer.CodeConflict, s.st().AddSigningKey(ctx, "app", key("hmac")))
	requireCode(t, timer.CodeConflict, s.st().AddSigningKey(ctx, "other", a))
	requireCode(t, timer.CodeNotFound, s.st().RetireSigningKey(ctx, "other", a.ID))
	require.NoError(t, s.st().RetireSigningKey(ctx, "app", a.ID))
	requireCode(t, timer.CodeNotFound, s.st().RetireSigningKey(ctx, "app", a.ID))
	require.Equal(t, 1, logged())
	requireCode(t, timer.CodeNotFound, s.st().RetireSigningKey(ctx, "ghost", a.ID))
	requireCode(t, timer.CodeNotFound, s.st().RevokeAPIKey(ctx, "ghost", "a"))
	requireNoApp(t, s, "ghost")

	d := key("hmac")
	d.App = "new"
	require.NoError(t, s.st().AddSigningKey(ctx, "new", d))
	b.Secret = "cs1.k2.b"
	require.NoError(t, s.st().ResealSigningKey(ctx, b))
	requireCode(t, timer.CodeNotFound, s.st().ResealSigningKey(ctx, a))
	all, err := s.st().AllSigningKeys(ctx, 0, 2)
	require.NoError(t, err)
	require.Equal(t, []store.SigningKey{b, c}, all)
	all, err = s.st().AllSigningKeys(ctx, c.ID, 2)
	require.NoError(t, err)
	require.Equal(t, []store.SigningKey{d}, all)
	require.Zero(t, logged())

	var added atomic.Int64
	s.together(8, func(ctx context.Context, _ int, st store.Store) error {
		k := key("hmac")
		err := st.AddSigningKey(ctx, "third", k)
		if timer.CodeOf(err) == timer.CodeConflict {
			return nil
		}
		added.Add(1)
		return err
	})
	require.EqualValues(t, 2, added.Load())
	require.Len(t, keys("third"), 2)
}

func apiKeys(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	logged := s.appLog(tm.AppID)
	key := func(app, id, scope string, at int64) store.APIKey {
		return store.APIKey{
			ID:        id,
			App:       app,
			Name:      "für " + id,
			Scope:     scope,
			Hash:      []byte{0xff, 0, 1},
			CreatedMS: at,
		}
	}
	a, b, c := key("app", "a", "read", 1), key("app", "b", "read", 2), key("app", "c", "admin", 3)
	own := key("", "own", "admin", 4)
	for range 2 {
		for _, k := range []store.APIKey{a, b, c, own} {
			require.NoError(t, s.st().AddAPIKey(ctx, k))
		}
	}
	require.Equal(t, 3, logged())
	got, err := s.st().APIKey(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, a, got)
	got, err = s.st().APIKey(ctx, "own")
	require.NoError(t, err)
	require.Equal(t, own, got)
	_, err = s.st().APIKey(ctx, "A")
	requireCode(t, timer.CodeNotFound, err)
	requireCode(t, timer.CodeInvalid, s.st().AddAPIKey(ctx, store.APIKey{App: "app"}))
	requireCode(t, timer.CodeConflict, s.st().AddAPIKey(ctx, key("app", "d", "read", 5)))
	requireCode(t, timer.CodeConflict, s.st().AddAPIKey(ctx, key("other", "a", "read", 5)))
	list := func(app string) []store.APIKey {
		t.Helper()
		out, err := s.st().APIKeys(ctx, app)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, []store.APIKey{c, b, a}, list("app"))
	require.Equal(t, []store.APIKey{own}, list(""))
	require.Empty(t, list("nobody"))

	requireCode(t, timer.CodeNotFound, s.st().RevokeAPIKey(ctx, "app", "own"))
	requireCode(t, timer.CodeNotFound, s.st().RevokeAPIKey(ctx, "", "a"))
	for range 2 {
		require.NoError(t, s.st().RevokeAPIKey(ctx, "app", "a"))
	}
	require.Equal(t, 1, logged())
	require.Equal(t, []store.APIKey{c, b}, list("app"))
	got, err = s.st().APIKey(ctx, "a")
	require.NoError(t, err)
	require.InDelta(t, s.nowMS(), got.RevokedMS, 10_000)
	require.NoError(t, s.st().AddAPIKey(ctx, a), "a revoked key stays revoked")
	require.Len(t, list("app"), 2)
	require.NoError(t, s.st().AddAPIKey(ctx, key("app", "d", "read", 0)))
	got, err = s.st().APIKey(ctx, "d")
	require.NoError(t, err)
	require.InDelta(t, s.nowMS(), got.CreatedMS, 10_000)

	var added atomic.Int64
	s.together(8, func(ctx context.Context, i int, st store.Store) error {
		err := st.AddAPIKey(ctx, key("", fmt.Sprint("many", i), "write", 9))
		if timer.CodeOf(err) == timer.CodeConflict {
			return nil
		}
		added.Add(1)
		return err
	})
	require.EqualValues(t, 2, added.Load())
}

func appsAreListed(t *testing.T, s *setup) {
	ctx := t.Context()
	for _, app := range []string{"b", "a", "", "ä", "B"} { // "" owns a key
		_, err := s.st().PutSettings(ctx, app, store.AppSettings{Rate: 1}, 0)
		require.NoError(t, err)
	}
	_, err := s.st().SetFrozen(ctx, "a", true, "why")
	require.NoError(t, err)
	all, err := s.st().ListApps(ctx, "", 3)
	require.NoError(t, err)
	more, err := s.st().ListApps(ctx, all[2].Name, 3)
	require.NoError(t, err)
	var names []string
	for _, a := range append(all, more...) {
		names = append(names, a.Name)
		one, err := s.st().App(ctx, a.Name)
		require.NoError(t, err)
		require.Equal(t, one, a)
	}
	require.Equal(t, []string{"B", "a", "b", "ä"}, names)
}
