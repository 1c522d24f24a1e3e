package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/store"
)

func TestSignInSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("\ufeffhush\n"), 0o600))
	good := map[string]string{
		"CARILLON_OIDC_ISSUER":             "https://id.example.com",
		"CARILLON_OIDC_CLIENT_ID":          "page",
		"CARILLON_OIDC_CLIENT_SECRET_FILE": file,
		"CARILLON_OIDC_AUDIENCE":           "carillon",
		"CARILLON_OIDC_ROLES":              "dev=editor@shop, root=admin@*",
		"CARILLON_OIDC_SESSIONS_SINCE":     "2030-01-31T09:00:00Z",
	}
	var c config.OIDC
	_, err := loadPart(t, &c, good)
	require.NoError(t, err)
	require.Equal(t, []string{"dev=editor@shop", "root=admin@*"}, c.Roles)
	require.Equal(t, 8*time.Hour, c.Session)
	secret, err := c.Secret()
	require.NoError(t, err)
	require.Equal(t, "hush", secret)
	since, err := c.SessionsSince()
	require.NoError(t, err)
	require.True(t, since.Equal(time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)))

	printed, err := loadPart(t, new(config.OIDC), map[string]string{
		"CARILLON_OIDC_ISSUER": "https://id.example.com", "CARILLON_OIDC_CLIENT_ID": "page",
		"CARILLON_OIDC_CLIENT_SECRET": "hush", "CARILLON_OIDC_ROLES": "root=admin@*",
	})
	require.NoError(t, err)
	require.NotContains(t, printed, "hush")

	longest := maps.Clone(good)
	longest["CARILLON_OIDC_SESSION"] = store.MaxSignIn.String()
	_, err = loadPart(t, &c, longest)
	require.NoError(t, err)
	longest["CARILLON_OIDC_SESSION"] = (store.MaxSignIn + time.Second).String()
	_, err = loadPart(t, &c, longest)
	require.ErrorContains(t, err, "oidc-session")

	for name, value := range map[string]string{
		"CARILLON_OIDC_ISSUER":         "",
		"CARILLON_OIDC_CLIENT_SECRET":  "given twice",
		"CARILLON_OIDC_REDIRECT_URL":   "/ui/sign-in/callback",
		"CARILLON_OIDC_AUDIENCE":       "page",
		"CARILLON_OIDC_ROLES":          "",
		"CARILLON_OIDC_SESSION":        "1s",
		"CARILLON_OIDC_SESSIONS_SINCE": "yesterday",
		"CARILLON_OIDC_SCOPES":         "profile,email",
	} {
		bad := map[string]string{name: value}
		for k, v := range good {
			if k != name {
				bad[k] = v
			}
		}
		_, err := loadPart(t, new(config.OIDC), bad)
		require.ErrorContains(t, err, "oidc-", name)
	}
}

// TestSignInWithoutAnIssuer checks that a setting of oidc is not ignored, and that the scopes of a
// deployment for machines alone are its own.
func TestSignInWithoutAnIssuer(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"CARILLON_OIDC_CLIENT_ID":          "page",
		"CARILLON_OIDC_CLIENT_SECRET":      "hush",
		"CARILLON_OIDC_CLIENT_SECRET_FILE": "/nowhere",
		"CARILLON_OIDC_REDIRECT_URL":       "https://timers.example.com/ui/sign-in/callback",
		"CARILLON_OIDC_AUDIENCE":           "carillon",
		"CARILLON_OIDC_ROLES":              "root=admin@*",
		"CARILLON_OIDC_SESSIONS_SINCE":     "2030-01-31T09:00:00Z",
	} {
		_, err := loadPart(t, new(config.OIDC), map[string]string{name: value})
		require.ErrorContains(t, err, "oidc-issuer: needed", name)
		require.NotContains(t, err.Error(), "hush")
	}
	for _, env := range []map[string]string{
		{"CARILLON_OIDC_AUDIENCE": "carillon", "CARILLON_OIDC_SCOPES": "profile"},
		{"CARILLON_OIDC_CLIENT_ID": "page", "CARILLON_OIDC_SCOPES": "profile openid"},
	} {
		env["CARILLON_OIDC_ISSUER"] = "https://id.example.com"
		env["CARILLON_OIDC_ROLES"] = "root=admin@*"
		_, err := loadPart(t, new(config.OIDC), env)
		require.NoError(t, err)
	}
}
