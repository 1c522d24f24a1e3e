package wiring_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/wiring"
)

// TestTestClock checks that the endpoint that skews the clock exists only if enabled, and that a
// warning is logged.
func TestTestClock(t *testing.T) {
	t.Parallel()
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		Timeout:   10 * time.Second,
	}
	for name, on := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if on {
				args = []string{"-test-clock"}
			}
			ctx, cancel := context.WithCancel(t.Context())
			out, done := &output{}, make(chan error, 1)
			go func() { done <- wiring.Service(wiring.Executor())(ctx, args, envWith(), io.Discard, out) }()
			require.Eventually(
				t,
				func() bool { return out.admin() != "" },
				20*time.Second,
				10*time.Millisecond,
			)
			post := func(body string) int {
				resp, err := client.Post(
					"http://"+out.admin()+"/test/clock",
					"application/json",
					strings.NewReader(body),
				)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return resp.StatusCode
			}
			want := map[string]int{
				`{"offset_ms": 2000}`:            204,
				`{"offset_ms": 0}`:               204,
				`{"jump_ms": -300}`:              204,
				``:                               400,
				`{}`:                             400,
				`{"offset_ms": 1, "jump_ms": 1}`: 400,
				`{"offset": 1}`:                  400,
				`{"offset_ms": 86400001}`:        400,
			}
			for body, code := range want {
				if !on {
					code = 404
				}
				require.Equal(t, code, post(body), body)
			}
			cancel()
			require.NoError(t, <-done)
			require.Equal(t, on, strings.Contains(out.text(), "TEST CLOCK"))
			require.Equal(t, on, strings.Contains(out.text(), `"offset_ms":2000`))
		})
	}
}
