package auth_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// counting is a store that counts lookups of keys, and can be unavailable.
type counting struct {
	api.Store

	lookups     atomic.Int64
	unavailable atomic.Bool
}

func (c *counting) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	c.lookups.Add(1)
	if c.unavailable.Load() {
		return store.APIKey{}, timer.Unavailable("reading a key", nil)
	}
	return c.Store.APIKey(ctx, id)
}

func TestKeyLookupsAreBounded(t *testing.T) {
	t.Parallel()
	c := &counting{}
	f, admin := apitest.Guarded(t, func(o *api.Options) { c.Store = o.Store; o.Store = c })
	k := f.MakeKey(t, admin, "shop", "read")
	get := func(key string) int {
		return f.Call(t, http.MethodGet, "/api/v2/apps/desk", "", apitest.Bearer(key)).Status
	}
	require.Equal(t, 404, get(k.Key))
	c.lookups.Store(0)
	began := time.Now()
	for range 200 {
		require.Equal(t, 404, get(k.Key))
	}
	require.LessOrEqual(t, c.lookups.Load(), int64(4+time.Since(began)/time.Second), "one a second")
	c.lookups.Store(0)
	refused := 0
	for range 300 {
		if get(apikey.New().Reveal()) == 503 {
			refused++
		}
	}
	require.LessOrEqual(t, c.lookups.Load(), int64(300))
	require.Positive(t, refused, "a burst of guesses is refused")
	require.Equal(t, 404, get(k.Key), "who is known is let in all the same")

	// Keys stay cached for seconds. The check repeats, in case this process was stalled for that
	// long.
	require.Eventually(t, func() bool {
		c.unavailable.Store(false)
		require.Eventually(
			t,
			func() bool { return get(k.Key) == 404 },
			time.Minute,
			10*time.Millisecond,
		)
		c.lookups.Store(0)
		c.unavailable.Store(true)
		for {
			switch asked := c.lookups.Load() > 0; get(k.Key) {
			case 404:
				if asked {
					return true
				}
			default:
				return false
			}
			time.Sleep(10 * time.Millisecond)
		}
	}, time.Minute, 10*time.Millisecond, "a store that is away keeps nobody out at once")
	require.Eventually(
		t,
		func() bool { return get(k.Key) == 503 },
		time.Minute,
		50*time.Millisecond,
		"nobody is let in by what was true long ago",
	)
}

func TestGatewaysHeader(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f, _ := apitest.Guarded(t, func(o *api.Options) {
		o.Logger = zerolog.New(&log)
		o.Auth.TrustHeader, o.Auth.TrustFrom = "X-Carillon-App", []netip.Prefix{
			netip.MustParsePrefix("10.1.0.0/16"),
			netip.MustParsePrefix("fd00::/8"),
		}
	})
	for _, c := range []struct {
		from   string
		values []string
		method string
		want   int
	}{
		{"10.1.2.3:999", []string{"shop"}, "GET", 200},
		{"[::ffff:10.1.2.3]:999", []string{"shop"}, "GET", 200},
		{"[fd00::1]:999", []string{"shop"}, "POST", 201},
		{"10.1.2.3:999", []string{"read:shop"}, "POST", 403},
		{"10.1.2.3:999", []string{"write:shop"}, "POST", 200},
		{"10.1.2.3:999", []string{"operate:shop"}, "GET", 200},
		{"10.1.2.3:999", []string{"operate:shop"}, "POST", 403},
		{"10.1.2.3:999", []string{"desk"}, "GET", 404},
		{"10.1.2.3:999", []string{"read:"}, "GET", 401},
		{"10.1.2.3:999", []string{":shop"}, "GET", 401},
		{"10.1.2.3:999", []string{"reader:shop"}, "POST", 401},
		{"10.1.2.3:999", []string{"READ:shop"}, "GET", 401},
		{"10.1.2.3:999", []string{"write:a:b"}, "GET", 404},
		{"10.1.2.3:999", []string{"*"}, "GET", 401},
		{"10.1.2.3:999", []string{"admin:*"}, "GET", 401},
		{"10.1.2.3:999", nil, "GET", 401},
		{"10.1.2.3:999", []string{""}, "GET", 401},
		{"10.1.2.3:999", []string{"shop", "desk"}, "GET", 401},
		{"10.2.2.3:999", []string{"shop"}, "GET", 401},
		{"127.0.0.1:999", []string{"shop"}, "GET", 401},
		{"nonsense", []string{"shop"}, "GET", 401},
	} {
		path, body := "/api/v2/timers?app=shop", ""
		if c.method == "POST" {
			path, body = "/api/v2/timers", apitest.V2Body
		}
		r := httptest.NewRequestWithContext(t.Context(), c.method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = c.from
		for _, v := range c.values {
			r.Header.Add("X-Carillon-App", v)
		}
		w := httptest.NewRecorder()
		f.Api.Handler().ServeHTTP(w, r)
		require.Equal(t, c.want, w.Code, fmt.Sprint(c, w.Body))
	}
	for _, app := range []string{"shop", "desk"} {
		require.Contains(t, log.String(), `"key_id":"","caller_kind":"gateway","caller":"`+app+`"`)
	}
	off := apitest.Setup(t, func(o *api.Options) { o.Auth = auth.Rules{} })
	require.Equal(
		t,
		401,
		off.Call(
			t,
			http.MethodGet,
			"/api/v2/timers?app=shop",
			"",
			map[string]string{"X-Carillon-App": "shop"},
		).Status,
	)
}

// TestPagesOfOtherSitesChangeNothing checks that a browser that is signed in at a gateway cannot be
// made to change timers by a page of another site. Programs send none of these headers.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	f, admin := apitest.Guarded(t, func(o *api.Options) {
		o.Auth.TrustHeader = "X-Carillon-App"
		o.Auth.TrustFrom = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	})
	const v2, v1 = "/api/v2/timers", "/api/timer/v1/def"
	site := func(s string) map[string]string { return map[string]string{"Sec-Fetch-Site": s} }
	for _, c := range []struct {
		method, path string
		header       map[string]string
		refused      bool
	}{
		{"POST", v2, site("cross-site"), true},
		{"POST", v2, site("same-site"), true},
		{"POST", v2, map[string]string{"Origin": "https://evil.example"}, true},
		{"POST", v2, map[string]string{"Origin": "null"}, true},
		{"DELETE", v2 + "/7", site("cross-site"), true},
		{"POST", v1, site("cross-site"), true},
		{"POST", v1, nil, false},
		{"POST", v2, nil, false},
		{"POST", v2, site("same-origin"), false},
		{"POST", v2, site("none"), false},
		{"POST", v2, map[string]string{"Origin": "http://example.com"}, false}, // httptest's host
		{"GET", v2 + "?app=shop", site("cross-site"), false},
	} {
		for _, bearer := range []string{"", admin} { // a page that has a key may use it
			body := ""
			if c.method == http.MethodPost {
				body = map[string]string{v1: apitest.V1Body, v2: apitest.V2Body}[c.path]
			}
			r := httptest.NewRequestWithContext(
				t.Context(), c.method, c.path, strings.NewReader(body))
			r.RemoteAddr = "10.1.2.3:999"
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Carillon-App", "shop")
			if bearer != "" {
				r.Header.Del("X-Carillon-App")
				r.Header.Set("Authorization", "Bearer "+bearer)
			}
			for name, value := range c.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			f.Api.Handler().ServeHTTP(w, r)
			refused := c.refused && bearer == ""
			require.Equal(t, refused, w.Code == http.StatusForbidden, fmt.Sprint(c, w.Body))
			if refused {
				require.Contains(t, w.Body.String(), "another site")
			} else {
				require.NotEqual(t, http.StatusUnauthorized, w.Code, fmt.Sprint(c, w.Body))
			}
		}
	}
}
