package signin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDiscoveryIsRenewed checks that a provider that moves its endpoints is asked again, without a
// wait, and that what was known counts while it cannot be asked.
func TestDiscoveryIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration // by how much the clock was set back
		now := func() time.Time { return time.Now().Add(-back) }
		p, err := New(Options{Issuer: "https://id.example.com", Now: now})
		require.NoError(t, err)
		var asked atomic.Int64
		var down atomic.Bool
		at := "/old"
		p.keys.next = roundTrip(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			w := httptest.NewRecorder()
			if down.Load() {
				w.WriteHeader(http.StatusBadGateway)
			}
			err := json.NewEncoder(w).Encode(map[string]string{
				"issuer": p.opts.Issuer, "authorization_endpoint": p.opts.Issuer + at,
			})
			return w.Result(), err
		})
		found := func() string {
			d, err := p.discover(t.Context())
			require.NoError(t, err)
			return d.Endpoint().AuthURL
		}
		require.Equal(t, p.opts.Issuer+"/old", found())

		at = "/new"
		time.Sleep(askAgain - time.Second)
		require.Equal(t, p.opts.Issuer+"/old", found())
		require.EqualValues(t, 1, asked.Load())

		time.Sleep(time.Second)
		down.Store(true)
		for _, now := range []int64{1, 2} { // the first failure, and the second after a while
			began := time.Now()
			require.Equal(t, p.opts.Issuer+"/old", found())
			require.Equal(t, began, time.Now())
			time.Sleep(2 * time.Second)
			require.Equal(t, p.opts.Issuer+"/old", found())
			require.Equal(t, now+1, asked.Load())
			time.Sleep(retryAfter)
		}

		down.Store(false)
		require.Equal(t, p.opts.Issuer+"/old", found())
		time.Sleep(2 * time.Second)
		require.Equal(t, p.opts.Issuer+"/new", found())

		keys := p.latest.Load().Provider
		before := asked.Load()
		back = 24 * time.Hour
		require.Equal(t, p.opts.Issuer+"/new", found())
		time.Sleep(2 * time.Second)
		require.Equal(t, p.opts.Issuer+"/new", found())
		require.Equal(t, before+1, asked.Load())
		require.Same(t, keys, p.latest.Load().Provider, "the keys that it has fetched count on")
	})
}
