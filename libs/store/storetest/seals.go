package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func sealed(under string) timer.Definition {
	d := definition("http://a")
	text := func(what string) timer.Sealed { return timer.Sealed("cs1." + under + "." + what) }
	d.Target.SecretHeaders = map[string]timer.Sealed{"X-Token": text("token")}
	d.Target.TLS = &timer.TLS{Cert: "cert", Key: text("key")}
	//nolint:gosec // of a test
	d.Target.OAuth2 = &timer.OAuth2{TokenURL: "https://t", ClientID: "me", Secret: text("secret")}
	return d
}

// encryptedTextIsRewritten rotates the encryption key.
func encryptedTextIsRewritten(t *testing.T, s *setup) {
	ctx := t.Context()
	item := s.newTimer()
	item.Definition = sealed("old")
	made := s.create(item, noFires).Timer
	plainItem := s.newTimer()
	plainItem.Definition.Target.Body = `"cs1.old.x"` // only looks like it
	s.create(plainItem, noFires)
	several := s.newTimer()
	several.Definition.Target = timer.Target{}
	several.Definition.Fanout = timer.Fanout{
		Mode:    timer.ModeAll,
		Targets: []timer.Target{sealed("old").Target, definition("http://b").Target},
	}
	second := s.create(several, noFires).Timer
	edited := s.edit(second, func() timer.Definition {
		d := second.Definition
		d.Labels = map[string]string{"a": "b"}
		return d
	}(), noFires)

	again := store.NewTimer{App: item.App, Name: item.Name, Definition: sealed("old")}
	require.True(
		t,
		s.create(again, noFires).Existing,
		"the same secret under the same key is the same definition",
	)
	rotated := again
	rotated.Definition = sealed("new")
	out, err := s.st().Create(ctx, []store.NewTimer{rotated}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, out[0].Err)

	var keys []store.VersionKey
	for at := (store.VersionKey{}); ; {
		found, next, err := s.st().SealedVersions(ctx, at, 2)
		require.NoError(t, err)
		require.LessOrEqual(t, len(found), 2)
		if len(found) == 0 {
			require.Equal(t, at, next)
			break
		}
		for k := range found {
			keys = append(keys, k)
		}
		require.Contains(t, found, next)
		at = next
	}
	require.ElementsMatch(
		t,
		[]store.VersionKey{
			{Timer: made.ID, Version: 1},
			{Timer: second.ID, Version: 1},
			{Timer: second.ID, Version: edited.Timer.Version},
		},
		keys,
	)

	key := store.VersionKey{Timer: made.ID, Version: 1}
	other := sealed("new")
	other.Target.URL = "http://evil"
	requireCode(t, timer.CodeInvalid, s.st().Reseal(ctx, key, other))
	requireCode(t, timer.CodeInvalid, s.st().Reseal(ctx, key, definition("http://a")))
	requireCode(
		t,
		timer.CodeNotFound,
		s.st().Reseal(ctx, store.VersionKey{Timer: made.ID, Version: 7}, sealed("new")),
	)
	for range 2 {
		require.NoError(t, s.st().Reseal(ctx, key, sealed("new")))
	}
	defs, err := s.st().Definitions(ctx, []store.VersionKey{key})
	require.NoError(t, err)
	resealed := sealed("new")
	require.Equal(t, &resealed, defs[key])
	got, err := s.st().Timer(ctx, "app", made.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Version)
	require.Equal(t, sealed("new"), got.Definition)
	require.True(t, s.create(rotated, noFires).Existing, "after re-encryption both are equal again")
	same := s.edit(got, sealed("new"), noFires)
	require.Zero(t, same.Seq)
}
