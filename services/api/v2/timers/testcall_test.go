package timers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type testedBody struct {
	FireID  string `json:"fire_id"`
	Outcome string
	DryRun  bool `json:"dry_run"`
	Calls   []struct {
		Target, Outcome, Failure, Error, Answer string
		StatusCode                              int `json:"status_code"`
		Headers                                 map[string]string
	}
}

// calling makes test calls by real callers, to addresses of this machine too if private.
func calling(t *testing.T, private bool) func(*api.Options) {
	t.Helper()
	ring := apitest.Keyring(t)
	policy := egress.NewPolicy(egress.Options{AllowPrivate: private})
	c, err := callback.NewHTTP(callback.HTTPOptions{
		NetOptions: callback.NetOptions{Egress: policy, Secrets: ring},
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return func(o *api.Options) {
		o.Secrets, o.Egress, o.Caller = ring, policy, callback.Callers{"http": c}
	}
}

// receiver answers as h does, and keeps the requests.
func receiver(t *testing.T, h http.HandlerFunc) (at string, requests func() []*http.Request) {
	t.Helper()
	var mu sync.Mutex
	var got []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		mu.Lock()
		got = append(got, r)
		mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return got
	}
}

func testCall(t *testing.T, f *apitest.Fixture, query, body string) (got testedBody) {
	t.Helper()
	f.Call(t, http.MethodPost, "/api/v2/timers:test"+query, body, nil).Into(t, 200, &got)
	return got
}

// TestTestCall checks that a test call is that of a fire, shows the answer without secrets, and
// leaves nothing but its entry in the audit trail.
func TestTestCall(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-of-the-test"
	at, requests := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Server", "it has "+r.Header.Get("X-Key"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and "+r.Header.Get("X-Key")+" "+strings.Repeat("x", 9999))
	})
	f := apitest.Setup(t, calling(t, true))
	f.Call(t, http.MethodPost, "/api/v2/apps/shop/signing-keys", `{}`, nil)
	body := func(key string) string {
		return apitest.WithTarget(
			`"target":{"kind":"http","url":"`+at+`/hook?a=b","templates":true,`+
				`"secret_headers":{"X-Key":"`+key+`"},"body":"{{cause}} {{label.team}}"}`,
			`"labels":{"team":"pay"},`,
		)
	}
	got := testCall(t, f, "?dry_run=true", body(secret))
	require.True(t, got.DryRun)
	require.Equal(t, "not_called", got.Outcome)
	require.Empty(t, requests())

	got = testCall(t, f, "", body(secret))
	require.Equal(t, "failed", got.Outcome)
	require.Len(t, got.Calls, 1)
	call := got.Calls[0]
	require.Equal(t, http.StatusTeapot, call.StatusCode)
	require.Equal(t, "status", call.Failure)
	require.Contains(t, call.Error, "418")
	require.True(t, strings.HasPrefix(call.Answer, "short and REDACTED x"), call.Answer)
	require.LessOrEqual(t, len(call.Answer), 512)
	require.Equal(t, "text/plain", call.Headers["Content-Type"])
	require.Equal(t, "it has REDACTED", call.Headers["Server"])
	require.NotContains(t, call.Headers, "Set-Cookie")
	sent := requests()[0]
	require.Equal(t, "test", sent.Header.Get("Carillon-Cause"))
	require.Equal(t, got.FireID, sent.Header.Get("Carillon-Fire-Id"))
	require.Equal(t, "1", sent.Header.Get("Carillon-Attempt"))
	require.Equal(t, secret, sent.Header.Get("X-Key"))
	require.NotEmpty(t, sent.Header.Get("Webhook-Signature"))
	text, err := io.ReadAll(sent.Body)
	require.NoError(t, err)
	require.Equal(t, "test pay", string(text))

	// The secrets of a timer that exists are used where they go to the same place.
	made := f.Create(t, 201, body(secret))
	got = testCall(t, f, "", body(encryption.Redacted))
	require.True(t, strings.HasPrefix(got.FireID, made.ID+"-"), got.FireID)
	require.Equal(t, secret, requests()[1].Header.Get("X-Key"))
	elsewhere := strings.Replace(body(encryption.Redacted), "127.0.0.1", "127.0.0.2", 1)
	p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers:test", elsewhere)
	require.Equal(t, "body.target.secret_headers.X-Key", p.Errors[0].Location)
	require.Len(t, requests(), 2)

	require.Empty(t, f.Fires(t, made.ID, "", 100))
	var trail struct {
		Items []struct {
			Action, Kind, Resource, Name string
			After                        map[string]any
		}
	}
	f.Call(t, http.MethodGet, "/api/v2/apps/shop/audit?action=test", "", nil).Into(t, 200, &trail)
	require.Len(t, trail.Items, 2, "of the calls that were made")
	require.Equal(t, made.ID, trail.Items[0].Resource)
	require.Empty(t, trail.Items[1].Resource, "it was no timer yet")
	require.Equal(t, "bill", trail.Items[1].Name)
	u, err := url.Parse(at)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"targets": []any{map[string]any{"kind": "http", "endpoint": u.Host}},
	}, trail.Items[1].After)
}

// TestTestCallIsRefused checks what is called neither by fires nor for a test.
func TestTestCallIsRefused(t *testing.T) {
	t.Parallel()
	at, requests := receiver(t, func(http.ResponseWriter, *http.Request) {})
	body := apitest.WithTarget(`"target":{"kind":"http","url":"`+at+`"}`, "")
	path := "/api/v2/timers:test"

	f := apitest.Setup(t, calling(t, false))
	p := f.Problem(t, 422, http.MethodPost, path, body)
	require.Equal(t, "body.target.url", p.Errors[0].Location)
	// A name is resolved at the call.
	named := strings.Replace(body, "127.0.0.1", "localhost", 1)
	if u, err := url.Parse(at); err == nil {
		named = strings.Replace(named, ":"+u.Port(), "", 1)
	}
	got := testCall(t, f, "", named)
	require.Equal(t, "failed", got.Outcome)
	require.Equal(t, "refused", got.Calls[0].Failure)

	off := apitest.Setup(t, calling(t, true), func(o *api.Options) { o.Caller = nil })
	require.Equal(t, 403, off.Call(t, http.MethodPost, path, body, nil).Status)
	system := strings.Replace(body, `"shop"`, `"carillon"`, 1)
	require.NotEqual(t, 200, f.Call(t, http.MethodPost, path, system, nil).Status)
	require.Empty(t, requests())
}

// TestTestCallsAreBounded checks that an app cannot make many, and leaves some to others.
func TestTestCallsAreBounded(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.MaxTests = 3 })
	began := time.Now()
	statuses := make(map[int]int)
	for range 10 {
		a := f.Call(t, http.MethodPost, "/api/v2/timers:test", apitest.V2Body, nil)
		statuses[a.Status]++
		if a.Status == 503 {
			require.NotEmpty(t, a.Header.Get("Retry-After"))
		}
	}
	if time.Since(began) < time.Second { // otherwise the first slots are free again
		require.Equal(t, map[int]int{200: 1, 503: 9}, statuses)
	}
	other := strings.Replace(apitest.V2Body, `"shop"`, `"other"`, 1)
	require.Equal(t, "failed", testCall(t, f, "", other).Outcome, "no caller is there")
	require.Eventually(t, func() bool {
		a := f.Call(t, http.MethodPost, "/api/v2/timers:test", apitest.V2Body, nil)
		return a.Status == 200
	}, time.Minute, 50*time.Millisecond)
}

// TestTestCallThatCannotBeSigned checks that an app's key that cannot be decrypted fails a test call
// as it fails a fire, and concerns no unsigned target.
func TestTestCallThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	at, requests := receiver(t, func(http.ResponseWriter, *http.Request) {})
	f := apitest.Setup(t, calling(t, true))
	f.Call(t, http.MethodPut, "/api/v2/apps/shop/settings", `{}`, nil)
	require.NoError(t, f.Store.AddSigningKey(t.Context(), "shop",
		store.SigningKey{ID: 1, App: "shop", Kind: "hmac", Secret: "cs1.k.x"}))
	got := testCall(t, f, "", apitest.WithTarget(`"target":{"kind":"http","url":"`+at+`"}`, ""))
	require.Equal(t, "failed", got.Outcome)
	require.Len(t, got.Calls, 1)
	require.Equal(t, "invalid", got.Calls[0].Failure)
	require.Contains(t, got.Calls[0].Error,
		"not sent: the call cannot be signed: decrypting a signing key: ")
	require.Empty(t, requests())
	got = testCall(t, f, "",
		apitest.WithTarget(`"target":{"kind":"http","url":"`+at+`","unsigned":true}`, ""))
	require.Equal(t, "delivered", got.Outcome)
	require.Len(t, requests(), 1)
	require.Empty(t, requests()[0].Header.Get("Webhook-Signature"))
}

// TestTestCallWaitsNoLongerThanItsRequest checks that the error tells a short wait from that of a
// fire.
func TestTestCallWaitsNoLongerThanItsRequest(t *testing.T) {
	t.Parallel()
	at, _ := receiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	f := apitest.Setup(t, calling(t, true), func(o *api.Options) {
		o.Timeout = 1500 * time.Millisecond
	})
	got := testCall(t, f, "", apitest.WithTarget(
		`"target":{"kind":"http","url":"`+at+`"}`, `"retry":{"timeout":"1m"},`,
	))
	require.Equal(t, "timeout", got.Calls[0].Failure)
	require.Regexp(t, // it takes time to come to the call
		`^no answer within [1-5]00ms, the most that a test call waits; a fire waits 1m0s$`,
		got.Calls[0].Error)
}

// TestTestCallOfSeveralTargetsWaitsNoLongerThanItsRequest checks that targets that are called one
// after the other share the time, and that the answer says so.
func TestTestCallOfSeveralTargetsWaitsNoLongerThanItsRequest(t *testing.T) {
	t.Parallel()
	at, requests := receiver(
		t,
		func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	)
	f := apitest.Setup(t, calling(t, true), func(o *api.Options) {
		o.Timeout = 1500 * time.Millisecond
	})
	target := `{"kind":"http","url":"` + at + `"}`
	got := testCall(t, f, "", apitest.WithTarget(
		`"mode":"any","targets":[`+target+`,`+target+`,`+target+`]`, `"retry":{"timeout":"1m"},`,
	))
	require.Equal(t, "failed", got.Outcome)
	require.Len(t, got.Calls, 3)
	require.Contains(t, got.Calls[0].Error, "the most that a test call waits; a fire waits 1m0s")
	for _, call := range got.Calls[1:] { // some milliseconds may be left of the rounded time
		require.Equal(t, "timeout", call.Failure)
		require.Regexp(t, `^not sent: the targets before used up the time$`+
			`|^no answer within .*ms, which is what the targets before left of the time$`, call.Error)
	}
	require.NotEmpty(t, requests())
}
