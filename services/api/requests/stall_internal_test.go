package requests

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWritesAreRefusedAfterAStall checks that writes are refused after a stall and accepted again
// soon, and that reads are served.
func TestWritesAreRefusedAfterAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStallDetector()
		h := s.Reject(
			http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			),
		)
		ask := func(method string) int {
			w := httptest.NewRecorder()
			h.ServeHTTP(
				w,
				httptest.NewRequestWithContext(t.Context(), method, "/api/v2/timers", nil),
			)
			return w.Code
		}
		require.Equal(t, http.StatusNoContent, ask(http.MethodPost), "it does not beat yet")
		s.tick()
		time.Sleep(stallThreshold)
		require.Equal(t, http.StatusNoContent, ask(http.MethodPost))
		s.tick()
		require.Equal(t, http.StatusNoContent, ask(http.MethodPost), "so long is no pause")
		time.Sleep(time.Minute)
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			require.Equal(
				t,
				http.StatusServiceUnavailable,
				ask(method),
				"read before the first beat",
			)
		}
		require.Equal(t, http.StatusNoContent, ask(http.MethodGet))
		s.tick()
		time.Sleep(rejectPeriod - time.Millisecond)
		require.Equal(t, http.StatusServiceUnavailable, ask(http.MethodPost), "read soon after it")
		s.tick()
		time.Sleep(time.Millisecond)
		require.Equal(t, http.StatusNoContent, ask(http.MethodPost))
	})
}
