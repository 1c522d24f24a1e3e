package allinone_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/allinone"
)

func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := allinone.Try(t.Context(), args, nil, &out, &out)
	return out.String(), err
}

func TestTryMakesATimerRing(t *testing.T) {
	t.Parallel()
	d := start(t, t.TempDir(), "CARILLON_CANARY", "1s")
	defer d.stop(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	out, err := try(t, "-api", d.api, "-ready", d.admin+"/readyz", "-canary", "-listen", addr, "-url", "http://"+addr+"/ring", "-patience", "30s")
	require.NoError(t, err, out)
	require.Contains(t, out, "the canary came through")
	require.Contains(t, out, "it rang")
	require.Contains(t, out, "it is recorded: delivered")
	require.NotContains(t, out, "stays behind")
	_, list := get(t, d.api+"/api/v2/timers?app=carillon-try")
	require.NotContains(t, list, `"try-`, "the timer is deleted")

	_, err = try(t, "-api", d.api, "-listen", addr, "-url", "http://127.0.0.1:1/", "-patience", "4s")
	require.ErrorContains(t, err, "did not ring")
	_, err = try(t, "-ready", "http://127.0.0.1:1/readyz", "-patience", "1s")
	require.ErrorContains(t, err, "waiting in vain for http://127.0.0.1:1/readyz")
	var p *config.Problems
	_, err = try(t, "-canary", "-url", "nowhere")
	require.ErrorAs(t, err, &p)
}
