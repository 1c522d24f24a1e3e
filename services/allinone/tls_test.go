package allinone_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestAPIOverTLS checks that the API speaks TLS alone where it has a certificate.
func TestAPIOverTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := devtest.TLSPair(t)
	d := devtest.Start(t, t.TempDir(),
		"CARILLON_HTTP_TLS_CERT", cert,
		"CARILLON_HTTP_TLS_KEY", key)
	defer d.Stop(t)
	require.Contains(t, d.Out.String(), "Carillon is at https://")

	status := func(url string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(q)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	plain := d.Api + "/api/v2/timers?app=shop"
	require.Equal(t, http.StatusBadRequest, status(plain), "plain HTTP to a port of TLS")
	require.Equal(t, http.StatusOK, status(strings.Replace(plain, "http://", "https://", 1)))
}

// TestFilesOfSettingsMustBeValid checks that a wrong file is told as a wrong setting.
func TestFilesOfSettingsMustBeValid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, []byte("nonsense"), 0o600))
	for want, args := range map[string][]string{
		"http-tls-cert, http-tls-key: ": {"-http-tls-cert", file, "-http-tls-key", file},
		"api-keys-file: ":               {"-auth", "on", "-api-keys-file", file},
	} {
		err := allinone.Dev(
			t.Context(),
			append(
				args,
				"-data-dir",
				t.TempDir(),
				"-admin-addr",
				"127.0.0.1:0",
				"-http-addr",
				"127.0.0.1:0",
			),
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		)
		var p *config.Problems
		require.ErrorAs(t, err, &p)
		require.ErrorContains(t, err, want)
	}
}
