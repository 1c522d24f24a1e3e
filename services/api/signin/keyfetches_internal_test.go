package signin

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestFailedDoesNotWait checks that the answer to whether the provider's keys are known does not wait
// for a fetch, and is that of the fetch before.
func TestFailedDoesNotWait(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	k := &keyFetches{now: time.Now, next: roundTrip(func(*http.Request) (*http.Response, error) {
		began <- struct{}{}
		<-end
		w := httptest.NewRecorder()
		w.WriteHeader(http.StatusBadGateway)
		return w.Result(), nil
	})}
	url := "https://id.example.com/keys"
	k.url.Store(&url)
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if resp, err := k.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-began
	require.False(t, k.failed())
	close(end)
	<-fetched
	require.True(t, k.failed())
}

// TestMovedKeysAreFetchedAtOnce checks that keys at a new URL are not those of the old one.
func TestMovedKeysAreFetchedAtOnce(t *testing.T) {
	t.Parallel()
	var fetched []string
	k := &keyFetches{now: time.Now, next: roundTrip(func(r *http.Request) (*http.Response, error) {
		fetched = append(fetched, r.URL.Path)
		return httptest.NewRecorder().Result(), nil
	})}
	for _, url := range []string{"https://id.example.com/old", "https://id.example.com/new"} {
		k.url.Store(&url)
		for range 2 {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			require.NoError(t, err)
			resp, err := k.RoundTrip(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
	}
	require.Equal(t, []string{"/old", "/new"}, fetched)
}
