package process

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	code := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte("mysql: away"))
	}))
	defer srv.Close()
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	require.NoError(t, err)
	ask := func(addr string) (string, error) {
		var out bytes.Buffer
		err := probe(t.Context(), func(string) (string, bool) { return addr, true }, &out)
		return out.String(), err
	}
	for _, addr := range []string{":" + port, "127.0.0.1:" + port, "0.0.0.0:" + port, "[::]:" + port} {
		_, err := ask(addr)
		require.NoError(t, err, addr)
	}
	code = http.StatusServiceUnavailable
	said, err := ask(":" + port)
	require.ErrorContains(t, err, "not ready: 503")
	require.Equal(t, "mysql: away", said)
	_, err = ask("nowhere")
	require.ErrorContains(t, err, "CARILLON_ADMIN_ADDR")
	_, err = ask("127.0.0.1:1") // nothing listens there, and no test is given this port
	require.ErrorContains(t, err, "refused")
}
