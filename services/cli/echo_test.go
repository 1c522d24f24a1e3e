package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/allinone"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// lockedBuffer is what a command prints while a test reads it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestEchoOverTLS checks that the echo endpoint speaks TLS alone where it has a certificate, and that
// a wrong file is told as a wrong setting.
func TestEchoOverTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := devtest.TLSPair(t)
	args := []string{
		"echo", "-http-addr", "127.0.0.1:0", "-log-format", "json", "-http-tls-cert", cert,
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	err := cli.Run(ctx, append(args, "-http-tls-key", cert), devtest.NoEnv, io.Discard, io.Discard)
	require.ErrorContains(t, err, "http-tls-cert, http-tls-key: ")
	require.ErrorAs(t, err, new(*config.Problems))

	args = append(args, "-http-tls-key", key)
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	log, done := &lockedBuffer{}, make(chan error, 1)
	go func() { done <- cli.Run(ctx, args, devtest.NoEnv, io.Discard, log) }()
	var line struct{ Addr string }
	require.Eventually(t, func() bool {
		first, _, whole := strings.Cut(log.String(), "\n")
		return whole && json.Unmarshal([]byte(first), &line) == nil && line.Addr != ""
	}, 20*time.Second, 5*time.Millisecond)

	status := func(scheme string) int {
		q, err := http.NewRequestWithContext(
			t.Context(), http.MethodGet, scheme+line.Addr+allinone.EchoPath, http.NoBody,
		)
		require.NoError(t, err)
		resp, err := client.Do(q)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusNoContent, status("https://"))
	require.Equal(t, http.StatusBadRequest, status("http://"), "plain HTTP to a port of TLS")
	stop()
	require.NoError(t, <-done)
}
