package callback_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/timer"
)

func newKeyring(t testing.TB) *encryption.Keyring {
	t.Helper()
	ring, err := encryption.ParseKeyring(encryption.NewKey("k1"))
	require.NoError(t, err)
	return ring
}

func TestTemplatesAreExpandedOnlyWhereTheTargetAsksForThem(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	c, r := setup(t, func(_ http.ResponseWriter, req *http.Request) {
		got = req
		body, _ = io.ReadAll(req.Body)
	})
	base := r.Target.URL
	r.Target.URL = base + "/{{label.team}}/{{fire.id}}?a={{attempt}}"
	r.Target.Query = map[string][]string{"team": {"{{label.team}}"}, "b": {"1", "2&3"}}
	r.Target.Headers = map[string][]string{
		"X-Due":        {"{{due}}", "plain"},
		"Content-Type": {"application/json"},
	}
	r.Target.Body = `{"team":"{{label.team}}","name":"{{timer.name}}"}`
	r.Labels = map[string]string{"team": `a/"b" & c`}
	r.Name, r.Cause = "close the day", "run_now"
	zone, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	r.Zone = zone

	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.Equal(t, r.Target.Body, string(body), "byte for byte")
	require.Equal(t, []string{"{{due}}", "plain"}, got.Header["X-Due"])
	require.Equal(t, "run_now", got.Header.Get("Carillon-Cause"))

	r.Target.Templates = true
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.JSONEq(t, `{"team":"a/\"b\" & c","name":"close the day"}`, string(body))
	require.Equal(t, []string{"2025-12-31T19:00:00.123-05:00", "plain"}, got.Header["X-Due"])
	require.Equal(t, "/a%2F%22b%22%20%26%20c/42-1767225600123", got.URL.EscapedPath())
	require.Equal(
		t,
		map[string][]string{"a": {"2"}, "team": {`a/"b" & c`}, "b": {"1", "2&3"}},
		map[string][]string(got.URL.Query()),
	)
	require.Equal(
		t,
		[]string{"{{due}}", "plain"},
		r.Target.Headers["X-Due"],
		"the definition stays as it is",
	)

	r.Target.Headers = map[string][]string{"X-Team": {"{{label.team}}"}}
	r.Labels = map[string]string{"team": "a\r\nX-Evil: 1"}
	res := c.Call(t.Context(), r)
	require.Equal(t, callback.Reject, res.Class)
	require.Equal(t, timer.FailureInvalid, res.Failure)
	require.Contains(t, res.Error, "header X-Team")
	r.Target.Headers, r.Target.Body = nil, "{{nonsense}}"
	require.Contains(t, c.Call(t.Context(), r).Error, "body")
	r.Target.Body, r.Target.URL = "", base+"/{{x"
	require.Contains(t, c.Call(t.Context(), r).Error, "url")
}

// TestABodyOfBytes checks that bytes reach the receiver unchanged.
func TestABodyOfBytes(t *testing.T) {
	t.Parallel()
	var got []byte
	server := httptest.NewServer(
		http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { got, _ = io.ReadAll(r.Body) },
		),
	)
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	r := requestTo(server.URL)
	r.Target.Templates, r.Target.Bytes = true, []byte("\xff\x00{{due}}\xc3")
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.Equal(t, r.Target.Bytes, got)
}

// TestAHostThatIsNoneOnceItIsExpandedIsNotSent covers an invalid host, which net/http would send as
// an empty one.
func TestAHostThatIsNoneOnceItIsExpandedIsNotSent(t *testing.T) {
	t.Parallel()
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	for _, host := range []string{"{{label.h}}", "{{timer.name}}", "{{label.gone}}"} {
		r := requestTo("http://127.0.0.1:1")
		r.Name, r.Labels = "close the day", map[string]string{"h": "a/b"}
		r.Target.Templates, r.Target.Headers = true, map[string][]string{"host": {host}}
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Reject, got.Class, host)
		require.Equal(t, timer.FailureInvalid, got.Failure, host)
		require.Contains(t, got.Error, "Host")
	}
}

// TestWhatIsTooLongOnceItIsExpandedIsNotSent checks sizes at the call, for definitions older than
// the check.
func TestWhatIsTooLongOnceItIsExpandedIsNotSent(t *testing.T) {
	t.Parallel()
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	many := strings.Repeat("{{label.x}}", 100)
	for field, change := range map[string]func(x *timer.Target){
		"url":     func(x *timer.Target) { x.URL += "/" + many },
		"query":   func(x *timer.Target) { x.Query = map[string][]string{"q": {many}} },
		"headers": func(x *timer.Target) { x.Headers = map[string][]string{"X-A": {many}, "X-B": {many}} },
		"body":    func(x *timer.Target) { x.Body = strings.Repeat(many, 100) },
	} {
		r := requestTo("http://127.0.0.1:1")
		r.Labels, r.Target.Templates = map[string]string{"x": strings.Repeat("x", 200)}, true
		change(&r.Target)
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Reject, got.Class, field)
		require.Equal(t, timer.FailureInvalid, got.Failure, field)
		require.True(t, strings.HasPrefix(got.Error, field), got.Error)
	}
}

func TestSecretHeadersAreSentAndNeverShown(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(
			w,
			"you sent "+r.Header.Get("Authorization")+" and "+r.Header.Get("X-Short"),
		)
	}))
	t.Cleanup(server.Close)
	c := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	r := requestTo(server.URL)
	r.App = "shop"
	seal := func(s, app string) timer.Sealed {
		return ring.Seal(encryption.NewSecret(s), callback.SecretBinding(app))
	}
	r.Target.SecretHeaders = map[string]timer.Sealed{
		"authorization": seal("Bearer hunter2", "shop"),
		"X-Short":       seal("abc", "shop"),
	}
	got := c.Call(t.Context(), r)
	require.Equal(t, "you sent REDACTED and abc", got.Excerpt)
	echo := func(s string) string {
		server := httptest.NewServer(
			http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) },
			),
		)
		t.Cleanup(server.Close)
		q := *r
		q.Target.URL = server.URL
		return c.Call(t.Context(), &q).Excerpt
	}
	require.Equal(t, "only REDACTED", echo("only hunter2"), "without its scheme")
	long := strings.Repeat("x", timer.MaxExcerpt-7)
	require.NotContains(t, echo(long+"Bearer hunter2"), "Bearer")
	require.NotContains(t, echo(long+" hunter2"), "hunter")

	r.Target.SecretHeaders = map[string]timer.Sealed{
		"Authorization": seal("Bearer hunter2", "another"),
	}
	got = c.Call(t.Context(), r)
	require.Equal(t, callback.Reject, got.Class, "it is another app's")
	require.Contains(t, got.Error, "secret header Authorization")
	r.Target.SecretHeaders = map[string]timer.Sealed{
		"Authorization": newKeyring2(
			t,
		).Seal(encryption.NewSecret("x"), callback.SecretBinding("shop")),
	}
	got = c.Call(t.Context(), r)
	require.Equal(t, callback.Retry, got.Class, "the key may come")
	require.Equal(t, timer.FailureInvalid, got.Failure)
	none := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	require.Contains(t, none.Call(t.Context(), r).Error, "no keys")
}

func newKeyring2(t testing.TB) *encryption.Keyring {
	t.Helper()
	ring, err := encryption.ParseKeyring(encryption.NewKey("k2"))
	require.NoError(t, err)
	return ring
}

func TestCallbacksAreSignedWithEveryLiveKey(t *testing.T) {
	t.Parallel()
	var got http.Header
	var body []byte
	c, r := setup(t, func(_ http.ResponseWriter, req *http.Request) {
		got = req.Header
		body, _ = io.ReadAll(req.Body)
	})
	var keys []signing.Key
	for range 2 {
		k, err := signing.NewKey(signing.HMAC)
		require.NoError(t, err)
		keys = append(keys, k)
	}
	var err error
	r.Signer, err = signing.NewSigner(keys...)
	require.NoError(t, err)
	r.Start = time.Now()
	r.Target.Templates, r.Target.Body = true, "at {{due.unix_ms}} ß"
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.Equal(t, "at 1767225600123 ß", string(body))
	for _, k := range keys {
		wh, err := standardwebhooks.NewWebhook(k.Reveal())
		require.NoError(t, err)
		require.NoError(t, wh.Verify(body, got))
		require.Error(t, wh.Verify(append(body, '!'), got))
	}
	require.Equal(t, got.Get("Carillon-Fire-Id"), got.Get("Webhook-Id"))
	r.Target.Unsigned = true
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	require.Empty(t, got.Get("Webhook-Signature"))
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	var got []string
	c, r := setup(
		t,
		func(_ http.ResponseWriter, req *http.Request) { got = append(got, req.Header.Get("Traceparent")) },
	)
	for attempt := range 3 {
		r.Attempt = int32(attempt + 1)
		require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	}
	r.Fire.DueMS++
	require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	trace := func(i int) string { return strings.Split(got[i], "-")[1] }
	span := func(i int) string { return strings.Split(got[i], "-")[2] }
	require.Equal(t, trace(0), trace(1))
	require.Equal(t, trace(0), trace(2))
	require.NotEqual(t, trace(0), trace(3))
	require.NotEqual(t, span(0), span(1))
	require.NotEqual(t, span(1), span(2))
}

func TestCompletionTokens(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t)
	tokens, err := callback.NewCompletionTokens(ring.Derive("completion")...)
	require.NoError(t, err)
	fire := timer.FireID{Timer: 42, DueMS: 7}
	verifies := func(
		tokens *callback.CompletionTokens, fire timer.FireID, attempt int32, token string,
	) bool {
		_, ok := tokens.Verify(fire, attempt, token)
		return ok
	}
	token := tokens.Token(fire, 1)
	target, ok := tokens.Verify(fire, 1, token)
	require.True(t, ok)
	require.Zero(t, target)
	for _, token := range []string{token, tokens.TargetToken(fire, 1, 3)} {
		require.True(t, verifies(tokens, fire, 1, token))
		require.False(t, verifies(tokens, fire, 2, token))
		require.False(t, verifies(tokens, timer.FireID{Timer: 42, DueMS: 8}, 1, token))
		require.False(t, verifies(tokens, fire, 1, token+"A"))
	}
	for i := range timer.MaxTargets {
		target, ok := tokens.Verify(fire, 1, tokens.TargetToken(fire, 1, i))
		require.True(t, ok)
		require.Equal(t, timer.TargetCompletes<<i, target)
	}
	_, sum, _ := strings.Cut(tokens.TargetToken(fire, 1, 3), ".")
	for _, other := range []string{
		"", "%", ".", "0." + token, "2." + sum, sum, "03." + sum, "8." + sum, "-3." + sum, "x." + sum,
	} {
		require.False(t, verifies(tokens, fire, 1, other), other)
	}
	newer, err := callback.NewCompletionTokens(
		append([][]byte{make([]byte, 32)}, ring.Derive("completion")...)...)
	require.NoError(t, err)
	require.True(t, verifies(newer, fire, 1, token), "of the key before")
	_, err = callback.NewCompletionTokens()
	require.ErrorContains(t, err, "need a key")
	_, err = callback.NewCompletionTokens([]byte("short"))
	require.ErrorContains(t, err, "shorter")
}

func TestAppsOfDifferentPoliciesShareNoConnection(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	)
	server.Config.ConnState = countNew(&opened)
	server.Start()
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	r := requestTo(server.URL)
	for range 3 {
		require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	}
	require.EqualValues(t, 1, opened.Load())
	r.Egress = strictPolicy()
	got := c.Call(t.Context(), r)
	require.Equal(t, callback.Reject, got.Class, "a connection that is open already does not help")
	require.Equal(t, timer.FailureRefused, got.Failure)
	require.EqualValues(t, 1, opened.Load())
}
