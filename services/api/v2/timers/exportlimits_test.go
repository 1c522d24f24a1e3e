package timers_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/v2/timers"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// slowReader is a caller that takes the first page when the test says so.
type slowReader struct {
	*httptest.ResponseRecorder

	began, goOn chan struct{}
	first       bool
}

func newSlowReader() *slowReader {
	return &slowReader{
		httptest.NewRecorder(), make(chan struct{}), make(chan struct{}), true,
	}
}

func (w *slowReader) Write(p []byte) (int, error) {
	if w.first {
		w.first = false
		close(w.began)
		<-w.goOn
	}
	return w.ResponseRecorder.Write(p) //nolint:wrapcheck // a recorder has no errors
}

// begin exports an app until the caller takes the first page. The channel has whether the connection
// was broken.
func (w *slowReader) begin(t *testing.T, f *apitest.Fixture, app, key string) <-chan bool {
	t.Helper()
	broken := make(chan bool, 1)
	r := httptest.NewRequestWithContext(
		t.Context(), http.MethodGet, "/api/v2/apps/"+app+"/export", nil)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	go func() {
		defer func() { broken <- recover() == http.ErrAbortHandler }() //nolint:errorlint // as panicked
		f.Api.Handler().ServeHTTP(w, r)
	}()
	<-w.began
	return broken
}

// TestExportsAreLimited: callers that take their pages slowly leave exports to other apps.
func TestExportsAreLimited(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Create(t, http.StatusCreated, apitest.V2Body)
	var open []*slowReader
	var ends []<-chan bool
	for range timers.MaxExports / 4 {
		w := newSlowReader()
		ends = append(ends, w.begin(t, f, "shop", ""))
		open = append(open, w)
	}
	a := f.Call(t, http.MethodGet, "/api/v2/apps/shop/export", "", nil)
	require.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
	require.Contains(t, a.Body, "repeat the request when one has ended")
	require.Equal(t, http.StatusOK, f.Call(
		t, http.MethodGet, "/api/v2/apps/other/export", "", nil).Status)
	for i, w := range open {
		close(w.goOn)
		require.False(t, <-ends[i])
		require.Contains(t, w.Body.String(), `"kind":"timer"`)
	}
	require.Equal(t, http.StatusOK, f.Call(
		t, http.MethodGet, "/api/v2/apps/shop/export", "", nil).Status)
}

// TestExportsEndWithTheirKey revokes the key of an export between two of its pages.
func TestExportsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t)
	key := f.MakeKey(t, admin, "shop", "read")
	w := newSlowReader()
	broken := w.begin(t, f, "shop", key.Key)
	a := f.Call(
		t, http.MethodDelete, "/api/v2/apps/shop/keys/"+key.ID, "", apitest.Bearer(admin))
	require.Equal(t, http.StatusNoContent, a.Status, a.Body)
	close(w.goOn)
	require.True(t, <-broken, "%s", w.Body)
}
