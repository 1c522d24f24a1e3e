package encryption_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

func parseKeyring(t testing.TB, keys ...encryption.Secret) *encryption.Keyring {
	t.Helper()
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(k.Reveal() + "\n")
	}
	r, err := encryption.ParseKeyring(encryption.NewSecret(text.String()))
	require.NoError(t, err)
	return r
}

var shop = encryption.Binding{App: "shop", Use: encryption.UseTarget}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	r := parseKeyring(t, encryption.NewKey("k1"))
	for _, text := range []string{"hunter2", "x", "ß\x00\xff", strings.Repeat("long", 10_000)} {
		sealed := r.Seal(encryption.NewSecret(text), shop)
		require.Equal(
			t,
			sealed,
			r.Seal(encryption.NewSecret(text), shop),
			"as often as it is sealed",
		)
		require.True(t, strings.HasPrefix(string(sealed), "cs1.k1."))
		require.NotContains(t, sealed, text[:1]+text[1:]+"!")
		got, err := r.Open(sealed, shop)
		require.NoError(t, err)
		require.Equal(t, text, got.Reveal())
	}
	require.Empty(t, r.Seal(encryption.Secret{}, shop))
	got, err := r.Open("", shop)
	require.NoError(t, err)
	require.True(t, got.IsZero())
}

func TestMismatchedSecretsDoNotOpen(t *testing.T) {
	t.Parallel()
	k1, k2 := encryption.NewKey("k1"), encryption.NewKey("k2")
	r := parseKeyring(t, k1)
	sealed := r.Seal(encryption.NewSecret("hunter2"), shop)
	for name, b := range map[string]encryption.Binding{
		"another app": {App: "bank", Use: encryption.UseTarget}, "another use": {App: "shop", Use: encryption.UseSigning}, "nobody's": {},
		"shifted": {App: "shopt", Use: "arget"}, "forged": {App: "shop|6:target", Use: ""},
	} {
		_, err := r.Open(sealed, b)
		require.ErrorIs(t, err, encryption.ErrMismatch, name)
	}
	_, err := parseKeyring(t, k2).Open(sealed, shop)
	require.ErrorIs(t, err, encryption.ErrUnknownKey)
	_, err = parseKeyring(t, encryption.NewKey("k1")).Open(sealed, shop)
	require.ErrorIs(t, err, encryption.ErrMismatch, "another key of the same id")
	text := string(sealed)
	for i := len("cs1.k1."); i < len(text); i++ {
		c := byte('A')
		if text[i] == c {
			c = 'B'
		}
		_, err := r.Open(timer.Sealed(text[:i]+string(c)+text[i+1:]), shop)
		require.Error(t, err, i)
	}
	renamed := parseKeyring(
		t,
		k1,
		encryption.NewSecret("k9:"+strings.TrimPrefix(k1.Reveal(), "k1:")),
	)
	_, err = renamed.Open(timer.Sealed(strings.Replace(text, "k1", "k9", 1)), shop)
	require.ErrorIs(t, err, encryption.ErrMismatch, "the key's id is authenticated")
	for _, bad := range []string{"x", "cs1", "cs1.k1", "cs2.k1.AAAA", "cs1.k1.", "cs1.k1.AAAA", "cs1..AAAA", "cs1.k 1.AAAA", "cs1.k1.###"} {
		_, err := r.Open(timer.Sealed(bad), shop)
		require.ErrorIs(t, err, encryption.ErrNotSealed, bad)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	k1, k2 := encryption.NewKey("k1"), encryption.NewKey("k2")
	old := parseKeyring(t, k1).Seal(encryption.NewSecret("hunter2"), shop)
	both := parseKeyring(t, k2, k1)
	require.Equal(t, "k2", both.First())
	got, err := both.Open(old, shop)
	require.NoError(t, err)
	require.Equal(t, "hunter2", got.Reveal())
	fresh, changed, err := both.Reencrypt(old, shop)
	require.NoError(t, err)
	require.True(t, changed)
	id, err := encryption.KeyID(fresh)
	require.NoError(t, err)
	require.Equal(t, "k2", id)
	again, changed, err := both.Reencrypt(fresh, shop)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, fresh, again)
	got, err = parseKeyring(t, k2).Open(fresh, shop)
	require.NoError(t, err)
	require.Equal(t, "hunter2", got.Reveal())
	_, _, err = both.Reencrypt(old, encryption.Binding{App: "bank"})
	require.ErrorIs(t, err, encryption.ErrMismatch)
	_, _, err = parseKeyring(t, encryption.NewKey("k2")).Reencrypt(fresh, shop)
	require.ErrorIs(t, err, encryption.ErrMismatch, "another key of the same id")
	_, changed, err = both.Reencrypt("", shop)
	require.NoError(t, err)
	require.False(t, changed)
	_, _, err = both.Reencrypt("x", shop)
	require.ErrorIs(t, err, encryption.ErrNotSealed)
}

func TestDerivedKeys(t *testing.T) {
	t.Parallel()
	k1, k2 := encryption.NewKey("k1"), encryption.NewKey("k2")
	one, both := parseKeyring(t, k1), parseKeyring(t, k2, k1)
	require.Len(t, one.Derive("a"), 1)
	require.Len(t, one.Derive("a")[0], 32)
	require.NotEqual(t, one.Derive("a"), one.Derive("b"))
	require.Equal(t, one.Derive("a")[0], both.Derive("a")[1])
}

func TestKeyrings(t *testing.T) {
	t.Parallel()
	key := strings.TrimPrefix(encryption.NewKey("x").Reveal(), "x:")
	raw, err := base64.StdEncoding.DecodeString(key)
	require.NoError(t, err)
	for _, text := range []string{"a:" + key, "a:" + key + ", b:" + key, "# ours\na:" + key + "\n\n  b:" + base64.RawURLEncoding.EncodeToString(raw) + "\n"} {
		r, err := encryption.ParseKeyring(encryption.NewSecret(text))
		require.NoError(t, err)
		require.Equal(t, "a", r.First())
	}
	for _, text := range []string{"", "#a:" + key, key, ":" + key, "a b:" + key, "a:" + key + ",a:" + key, "a:" + key[:20], "a:###" + key, "a.b:" + key, strings.Repeat("a", 33) + ":" + key} {
		_, err := encryption.ParseKeyring(encryption.NewSecret(text))
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), key[:12])
	}
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("\ufeffa:"+key+"\n"), 0o600))
	r, err := encryption.LoadKeyring(path)
	require.NoError(t, err)
	shown := ""
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		shown += fmt.Sprintf(verb+verb, r, *r)
	}
	require.NotContains(t, shown, strings.Trim(fmt.Sprintf("%d", raw[:6]), "[]"))
	require.Contains(t, shown, "keyring REDACTED")
	_, err = encryption.LoadKeyring(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestASecretNeverShowsItself(t *testing.T) {
	t.Parallel()
	s := encryption.NewSecret("hunter2")
	holder := struct {
		Shown  encryption.Secret
		hidden encryption.Secret
		Many   map[string]encryption.Secret
		Ptr    *encryption.Secret
	}{s, s, map[string]encryption.Secret{"a": s}, &s}
	var log strings.Builder
	logger := zerolog.New(&log)
	//nolint:err113 // a test
	logger.Info().
		Interface("a", holder).
		Stringer("b", s).
		Any("c", s).
		Str("d", s.String()).
		Err(fmt.Errorf("x %v", s)).
		Msg("x")
	asJSON, err := json.Marshal(holder)
	require.NoError(t, err)
	asYAML, err := yaml.Marshal(holder)
	require.NoError(t, err)
	shown := log.String() + string(asJSON) + string(asYAML)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%U", "%e", "%T", "%p", "%w"} {
		shown += fmt.Sprintf(verb+verb+verb+verb, s, &s, holder, &holder)
	}
	require.NotContains(t, shown, "hunter2")
	require.NotContains(t, strings.ToLower(shown), "68756e74")
	require.NotContains(t, shown, "104 117 110")
	require.Contains(t, shown, "REDACTED")
	require.Equal(t, "hunter2", holder.hidden.Reveal())

	var in struct{ Key encryption.Secret }
	require.NoError(t, json.Unmarshal([]byte(`{"Key":"hunter3"}`), &in))
	require.Equal(t, "hunter3", in.Key.Reveal())
	require.Empty(
		t,
		encryption.Secret{}.String()+encryption.Secret{}.Reveal()+fmt.Sprint(encryption.Secret{}),
	)
	require.True(t, encryption.NewSecret("").IsZero())
}

func FuzzOpen(f *testing.F) {
	r := parseKeyring(f, encryption.NewKey("k1"))
	f.Add(string(r.Seal(encryption.NewSecret("x"), shop)))
	f.Add("cs1.k1.AAAA")
	f.Fuzz(func(t *testing.T, s string) {
		other := parseKeyring(t, encryption.NewKey("k1"))
		if got, err := other.Open(timer.Sealed(s), shop); err == nil && !got.IsZero() {
			t.Fatalf("%q opened", s)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	r := parseKeyring(b, encryption.NewKey("k1"))
	sealed := r.Seal(encryption.NewSecret("Bearer 0123456789abcdef0123456789abcdef"), shop)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(sealed, shop); err != nil {
			b.Fatal(err)
		}
	}
}
