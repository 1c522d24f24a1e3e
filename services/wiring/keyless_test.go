package wiring

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProtectKeyless checks that no web page reaches an API without keys.
func TestProtectKeyless(t *testing.T) {
	t.Parallel()
	ok := http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
	)
	type header map[string]string
	for _, c := range []struct {
		listens, method, host string
		header                header
		want                  int
	}{
		{"127.0.0.1:8080", "POST", "127.0.0.1:8080", nil, 200},
		{"127.0.0.1:8080", "POST", "localhost:8080", nil, 200},
		{"127.0.0.1:8080", "POST", "LocalHost", nil, 200},
		{"[::1]:8080", "POST", "[::1]:8080", nil, 200},
		{"[::1]:8080", "POST", "[::1]", nil, 200},
		{"127.0.0.1:8080", "GET", "evil.example:8080", nil, 421},
		{"127.0.0.1:8080", "POST", "localhost.evil.example", nil, 421},
		{"127.0.0.1:8080", "POST", "127.0.0.1.evil.example:8080", nil, 421},
		{"127.0.0.1:8080", "POST", "192.168.1.5:8080", nil, 421},
		{"127.0.0.1:8080", "POST", "", nil, 421},
		{"127.0.0.1:8080", "POST", "127.0.0.1:8080", header{"Origin": "https://evil.example"}, 403},
		{"127.0.0.1:8080", "POST", "127.0.0.1:8080", header{"Origin": "null", "Content-Type": "text/plain"}, 403},
		{"127.0.0.1:8080", "DELETE", "127.0.0.1:8080", header{"Sec-Fetch-Site": "cross-site"}, 403},
		{"127.0.0.1:8080", "POST", "127.0.0.1:8080", header{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9999"}, 403},
		{"127.0.0.1:8080", "POST", "127.0.0.1:8080", header{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"}, 200},
		// The page may not read the answer.
		{"127.0.0.1:8080", "GET", "127.0.0.1:8080", header{"Sec-Fetch-Site": "cross-site"}, 200},
		{"0.0.0.0:8080", "POST", "timers.internal:8080", nil, 200},
		{"0.0.0.0:8080", "POST", "timers.internal:8080", header{"Origin": "https://evil.example"}, 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/api/v2/timers", nil)
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		protectKeyless(ok, c.listens).ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, "%+v", c)
		if w.Code != 200 {
			require.Contains(t, w.Body.String(), "auth=on")
		}
	}
}
