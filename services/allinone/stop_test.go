package allinone_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// TestStopCutsCallsOffAfterTheGracePeriod checks that a call in flight has the whole grace period,
// and that the process says meanwhile that it stops.
func TestStopCutsCallsOffAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	const grace = 2 * time.Second
	began, cut := make(chan struct{}), make(chan time.Time, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a closed connection after it
		close(began)
		<-r.Context().Done()
		cut <- time.Now()
	}))
	defer receiver.Close()
	d := devtest.Start(t, t.TempDir(), "CARILLON_SHUTDOWN_GRACE", grace.String())
	status, body := d.Do(t, http.MethodPost, "/api/v2/timers", "", `{"app":"shop","name":"slow",
		"status":"active","schedule":{"kind":"delay","delay":"10ms"},"retry":{"timeout":"1m"},
		"target":{"kind":"http","url":"`+receiver.URL+`"}}`)
	require.Equal(t, http.StatusCreated, status, body)
	<-began
	stop, stopped := time.Now(), make(chan struct{})
	go func() {
		defer close(stopped)
		d.Stop(t)
	}()
	require.Eventually(t, func() bool {
		status, body = devtest.Get(t, d.Admin+"/readyz")
		return status == http.StatusServiceUnavailable
	}, grace, time.Millisecond)
	require.Contains(t, body, "the process is stopping")
	require.GreaterOrEqual(t, (<-cut).Sub(stop), grace)
	<-stopped
}
