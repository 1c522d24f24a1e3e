package config_test

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
)

func loadPart(t *testing.T, p config.Part, env map[string]string) (string, error) {
	t.Helper()
	var out strings.Builder
	look := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	if err := config.NewSet("x", p).Load(nil, look, io.Discard); err != nil {
		return "", err
	}
	require.ErrorIs(
		t,
		config.NewSet("x", p).Load([]string{"-print-config"}, look, &out),
		config.ErrDone,
	)
	return out.String(), nil
}

func TestRulesMayHaveCommas(t *testing.T) {
	t.Parallel()
	var c config.Callback
	_, err := loadPart(
		t,
		&c,
		map[string]string{
			"CARILLON_CALLBACK_ALLOW": "10.0.0.0/8:80,8000-8100, hooks.internal:443 fd00::/8 , *.example.com:*,10.1.2.3",
		},
	)
	require.NoError(t, err)
	require.Equal(
		t,
		[]string{
			"10.0.0.0/8:80,8000-8100",
			"hooks.internal:443",
			"fd00::/8",
			"*.example.com:*",
			"10.1.2.3",
		},
		c.Allow,
	)
	p, err := c.Policy()
	require.NoError(t, err)
	require.NoError(t, p.Check("", netip.MustParseAddrPort("10.3.2.1:8050")))
	var refused *egress.RefusedError
	require.ErrorAs(t, p.Check("", netip.MustParseAddrPort("10.3.2.1:443")), &refused)
	_, err = loadPart(t, &c, map[string]string{"CARILLON_CALLBACK_ALLOW": "10.0.0.0/99"})
	require.ErrorContains(t, err, "callback-allow: ")
}

func TestWhereTargetsMayPublish(t *testing.T) {
	t.Parallel()
	var c config.Callback
	_, err := loadPart(t, &c, nil)
	require.NoError(t, err)
	open, err := c.AllowedTopics()
	require.NoError(t, err)
	require.Error(t, open.Check("", "persistent://a/b/c"), "nowhere, unless somebody says so")
	_, err = loadPart(
		t,
		&c,
		map[string]string{
			"CARILLON_CALLBACK_TOPICS":      "a/b, persistent://c/d/e",
			"CARILLON_CALLBACK_PULSAR_URLS": "pulsar://x.example:6650",
		},
	)
	require.NoError(t, err)
	open, err = c.AllowedTopics()
	require.NoError(t, err)
	require.NoError(t, open.Check("", "persistent://c/d/ever"))
	require.NoError(t, open.Check("pulsar://x.example:6650", "persistent://a/b/c"))
	_, err = loadPart(t, &c, map[string]string{"CARILLON_CALLBACK_TOPICS": "a"})
	require.ErrorContains(t, err, "callback-topics: ")
	_, err = loadPart(t, &c, map[string]string{"CARILLON_CALLBACK_PULSAR_URLS": "http://x"})
	require.ErrorContains(t, err, "callback-pulsar-urls: ")
}

func TestEncryptionKeysAreNotShown(t *testing.T) {
	t.Parallel()
	var c config.Encryption
	key := encryption.NewKey("k1").Reveal()
	shown, err := loadPart(t, &c, map[string]string{"CARILLON_ENCRYPTION_KEYS": key})
	require.NoError(t, err)
	require.Contains(t, shown, `encryption-keys: "REDACTED"`)
	require.NotContains(t, shown, key[3:])
	r, err := c.Keyring()
	require.NoError(t, err)
	require.Equal(t, "k1", r.First())

	none := config.Encryption{}
	_, err = loadPart(t, &none, nil)
	require.NoError(t, err)
	r, err = none.Keyring()
	require.NoError(t, err)
	require.Nil(t, r)

	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	_, err = loadPart(t, &c, map[string]string{"CARILLON_ENCRYPTION_KEYS_FILE": file})
	require.NoError(t, err)
	for _, env := range []map[string]string{
		{"CARILLON_ENCRYPTION_KEYS": "k1:hunter2"}, {"CARILLON_ENCRYPTION_KEYS_FILE": file + "x"}, {"CARILLON_ENCRYPTION_KEYS_FILE": file, "CARILLON_ENCRYPTION_KEYS": key},
	} {
		_, err = loadPart(t, &c, env)
		require.ErrorContains(t, err, "encryption-keys")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	var c config.API
	key := apikey.New()
	shown, err := loadPart(t, &c, map[string]string{"CARILLON_ADMIN_KEY": key.Reveal()})
	require.NoError(t, err)
	require.NotContains(t, shown, key.Reveal()[17:])
	require.Equal(t, config.AuthAuto, c.Auth)
	h, err := c.Admin()
	require.NoError(t, err)
	require.True(t, key.Matches(*h))
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("\ufeff"+key.Reveal()+"\r\n"), 0o600))
	c = config.API{}
	_, err = loadPart(t, &c, map[string]string{"CARILLON_ADMIN_KEY_FILE": file})
	require.NoError(t, err)
	h, err = c.Admin()
	require.NoError(t, err)
	require.True(t, key.Matches(*h), "the file has a byte order mark")
	for name, env := range map[string]map[string]string{
		"admin-key":      {"CARILLON_ADMIN_KEY": "hunter2"},
		"admin-key-file": {"CARILLON_ADMIN_KEY_FILE": "/nowhere"},
		"auth":           {"CARILLON_AUTH": "maybe"},
	} {
		_, err := loadPart(t, &c, env)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAGatewayIsNamedWithWhereItIs(t *testing.T) {
	t.Parallel()
	var c config.Gateway
	_, err := loadPart(
		t,
		&c,
		map[string]string{
			"CARILLON_TRUST_HEADER": "X-App",
			"CARILLON_TRUST_FROM":   "10.0.0.0/8,fd00::/8",
		},
	)
	require.NoError(t, err)
	from, err := c.Trusted()
	require.NoError(t, err)
	require.Len(t, from, 2)
	for name, env := range map[string]map[string]string{
		"trust-header": {"CARILLON_TRUST_HEADER": "X-App"},
		"trust-from":   {"CARILLON_TRUST_HEADER": "X-App", "CARILLON_TRUST_FROM": "10.0.0.1"},
		"of its own":   {"CARILLON_TRUST_HEADER": "authorization", "CARILLON_TRUST_FROM": "10.0.0.0/8"},
	} {
		_, err := loadPart(t, &c, env)
		require.ErrorContains(t, err, name)
	}
}

// TestPrivateAddressesAreOpenedByASettingOnly checks that an unset value is left to the program,
// and that false is respected.
func TestPrivateAddressesAreOpenedByASettingOnly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ private, loopback, dev bool }{
		"": {false, false, true}, "auto": {false, false, true}, "false": {false, false, false}, "0": {false, false, false}, "true": {true, true, true},
	} {
		var c config.Callback
		_, err := loadPart(t, &c, map[string]string{"CARILLON_CALLBACK_ALLOW_PRIVATE": text})
		require.NoError(t, err)
		require.Equal(t, want.private, c.AllowPrivate == config.Yes, text)
		require.Equal(t, want.loopback, c.AllowsLoopback(), text)
		c.LoopbackByDefault = true
		require.Equal(t, want.dev, c.AllowsLoopback(), text)
		p, err := c.Policy()
		require.NoError(t, err)
		require.Equal(t, want.dev, p.Check("", netip.MustParseAddrPort("127.0.0.1:9")) == nil, text)
		require.Equal(
			t,
			want.private,
			p.Check("", netip.MustParseAddrPort("10.0.0.1:9")) == nil,
			text,
		)
	}
	var c config.Callback
	_, err := loadPart(t, &c, map[string]string{"CARILLON_CALLBACK_ALLOW_PRIVATE": "maybe"})
	require.ErrorContains(t, err, "callback-allow-private")
}

// TestOwnPulsarIsNoOther checks that the deployment's own Pulsar is not listed among the others,
// where callback-topics does not hold.
func TestOwnPulsarIsNoOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		own, other string
		refused    bool
	}{
		{"pulsar://a.example:6650", "pulsar://a.example:6650", true},
		{"pulsar://a.example:6650/", "pulsar://A.example.:6650", true},
		{"pulsar://a.example:6650,b.example:6650", "pulsar://b.example:6650/", true},
		{"pulsar+ssl://a.example:6651", "pulsar://a.example:6651", true},
		{"pulsar://127.0.0.1:6650", "pulsar://localhost:6650", true},
		{"pulsar://[::1]:6650", "pulsar://[::ffff:127.0.0.1]:6650", true},
		{"pulsar://10.1.2.3:6650", "pulsar://[::ffff:10.1.2.3]:6650", true},
		{"pulsar://a.example:6650", "pulsar://a.example:6750", false},
		{"pulsar://a.example:6650", "pulsar://b.example:6650", false},
		{"", "pulsar://b.example:6650", false},
		{"pulsar://a.example", "pulsar://a.example:6650", true},
		{"PULSAR+SSL://A.example.", "pulsar+ssl://a.example:6651", true},
		{"pulsar://a.example,b.example/", "pulsar://b.example:6650", true},
		{"pulsar://a.example", "pulsar://b.example,a.example:6650", true},
		{"pulsar://[fd00::1]", "pulsar://[FD00:0::1]:6650", true},
		{"pulsar://[::1]", "pulsar://localhost:6650", true},
		{"pulsar://a.example", "pulsar://a.example:6651", false},
		{"pulsar+ssl://a.example", "pulsar+ssl://a.example:6650", false},
	} {
		c := config.Callback{PulsarURLs: []string{"pulsar://x.example:6650", tt.other}}
		err := c.CheckOwnPulsar(config.DSN(tt.own))
		if tt.refused {
			require.ErrorContains(t, err, "callback-pulsar-urls: "+tt.other, tt.own)
			continue
		}
		require.NoError(t, err, tt)
	}
}
