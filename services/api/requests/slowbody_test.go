package requests_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestEveryRouteTimesOutSlowBodies checks for every route that a missing body holds the connection
// no longer than the body timeout, whether the route reads bodies or not.
func TestEveryRouteTimesOutSlowBodies(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t, func(o *api.Options) { o.BodyTimeout = 50 * time.Millisecond })
	mux := http.NewServeMux()
	mux.Handle("/", f.Api.Handler())
	mux.Handle(
		"/beside",
		f.Api.WithKey(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			http.Error(w, err.Error(), http.StatusRequestTimeout)
		})),
	)
	server := httptest.NewServer(mux) // it has no deadlines of its own
	t.Cleanup(server.Close)
	for route, status := range map[string]string{
		"POST /api/v2/timers": "408", "PUT /api/v2/timers": "408", "PATCH /api/v2/timers/1?app=shop": "408", "POST /api/v2/fires/1-1/complete": "408",
		"POST /api/v2/timers/1/pause?app=shop": "408", "PUT /api/v2/apps/shop/settings": "408", "POST /api/v2/schedules/preview": "408",
		"POST /api/timer/v1/def": "408", "POST /api/timer/v1/enable": "408", "DELETE /api/timer/v1/def": "408", "POST /beside": "408",
		"GET /api/v2/timers/1?app=shop": "404", "DELETE /api/v2/timers/1?app=shop": "408", "GET /api/v2/openapi.json": "200", "POST /nowhere": "404",
		"GET /api/timer/v1/def?app=shop&id=1": "404", "POST /api/v2/timers/1/resume?app=shop": "408",
	} {
		t.Run(route, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(route, " ")
			c := dribble(
				t,
				server.Listener.Addr().String(),
				method,
				path,
				"Authorization: Bearer "+admin+"\r\n",
			)
			got, err := io.ReadAll(c) // until the server closes the connection
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(got), "HTTP/1.1 "+status+" "), "%s", got)
		})
	}
}
