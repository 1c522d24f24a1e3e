package callback_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// tokenServer issues tokens, counts them, and keeps the last request.
type tokenServer struct {
	*httptest.Server
	given   atomic.Int32
	mu      sync.Mutex
	form    map[string][]string
	user    string
	secret  string
	status  int
	expires int
	hang    chan struct{}
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	s := &tokenServer{expires: 3600}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		s.mu.Lock()
		s.form = r.PostForm
		s.user, s.secret, _ = r.BasicAuth()
		status, hang := s.status, s.hang
		s.mu.Unlock()
		if hang != nil {
			<-hang
		}
		n := s.given.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(
				w,
				`{"error":"invalid_client","error_description":"your secret `+s.secret+` is wrong"}`,
			)
			return
		}
		_ = json.NewEncoder(w).
			Encode(map[string]any{"access_token": "token-" + strconv.Itoa(int(n)), "token_type": "Bearer", "expires_in": s.expires})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func TestOAuth2(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t)
	var believed atomic.Value
	believed.Store("")
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		if b := believed.Load().(string); b != "" && r.Header.Get("Authorization") != "Bearer "+b {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+string(body))
	}))
	t.Cleanup(server.Close)
	ring := newKeyring(t)
	c := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	request := func() *callback.Request {
		r := requestTo(server.URL)
		r.App = "shop"
		r.Target.Body = "body"
		r.Target.OAuth2 = &timer.OAuth2{
			TokenURL: tokens.URL,
			ClientID: "me",
			Secret:   ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding("shop")),
			Scopes:   []string{"a", "b"},
			Params:   map[string]string{"audience": "x"},
			SecretParams: map[string]timer.Sealed{
				"password": ring.Seal(
					encryption.NewSecret("hunter4"),
					callback.SecretBinding("shop"),
				),
			},
		}
		return r
	}
	r := request()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			q := *r
			if got := c.Call(
				t.Context(),
				&q,
			); got.Class != callback.Success ||
				got.Excerpt != "Bearer REDACTED body" {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, tokens.given.Load(), "those who need the same token share it")
	require.Equal(
		t,
		map[string][]string{
			"grant_type": {"client_credentials"},
			"scope":      {"a b"},
			"audience":   {"x"},
			"password":   {"hunter4"},
		},
		tokens.form,
	)
	require.Equal(t, "me/hunter2", tokens.user+"/"+tokens.secret)

	believed.Store("token-2")
	before := calls.Load()
	got := c.Call(t.Context(), r)
	require.EqualValues(t, 1, calls.Load()-before, "an attempt calls once")
	require.Equal(t, callback.Retry, got.Class)
	require.EqualValues(t, http.StatusUnauthorized, got.StatusCode)
	require.Equal(
		t,
		"answered 401 Unauthorized: the token was a cached one, and the next call gets a new one",
		got.Error,
	)
	require.EqualValues(t, 1, tokens.given.Load())
	got = c.Call(t.Context(), r)
	require.Equal(
		t,
		callback.Success,
		got.Class,
		"a token that is not believed any more is replaced: %s",
		got.Error,
	)
	require.EqualValues(t, 2, tokens.given.Load())
	believed.Store("none")
	before = calls.Load()
	c.Call(t.Context(), r)
	got = c.Call(t.Context(), r)
	require.Equal(t, "answered 401 Unauthorized", got.Error, "of a new token")
	require.EqualValues(t, 2, calls.Load()-before)

	believed.Store("")
	in := request()
	in.Target.OAuth2.InBody = true
	require.Equal(t, callback.Success, c.Call(t.Context(), in).Class)
	require.Equal(t, []string{"hunter2"}, tokens.form["client_secret"])
	given := tokens.given.Load()
	other := request()
	other.App = "another"
	require.NotEqual(
		t,
		callback.Success,
		c.Call(t.Context(), other).Class,
		"another app has neither the secret nor the token",
	)
	require.Equal(t, given, tokens.given.Load())
}

func TestATokenServerInTrouble(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t)
	var calls atomic.Int32
	server := httptest.NewServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }),
	)
	t.Cleanup(server.Close)
	ring := newKeyring(t)
	c := newCaller(
		t,
		callback.HTTPOptions{
			NetOptions: callback.NetOptions{
				Secrets: ring,
				Egress: rules(
					t,
					"127.0.0.1:"+port(t, server.URL),
					"127.0.0.1:"+port(t, tokens.URL),
				),
			},
		},
	)
	r := requestTo(server.URL)
	r.App = "shop"
	seal := ring.Seal(encryption.NewSecret("hunter2-very-secret"), callback.SecretBinding("shop"))
	r.Target.OAuth2 = &timer.OAuth2{TokenURL: tokens.URL, ClientID: "me", Secret: seal}
	tokens.set(func() { tokens.status = 401 })
	asked := time.Now()
	for range 5 {
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Retry, got.Class)
		require.Equal(t, timer.FailureAuth, got.Failure)
		require.Contains(t, got.Error, "the token server answered 401: invalid_client")
		require.NotContains(t, got.Error, "hunter2")
	}
	require.LessOrEqual(
		t,
		tokens.given.Load(),
		1+int32(time.Since(asked)/time.Second),
		"it is not asked for every fire",
	)

	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	tokens.set(func() { tokens.status, tokens.hang = 0, hang })
	r.Target.OAuth2 = &timer.OAuth2{TokenURL: tokens.URL, ClientID: "other", Secret: seal}
	r.Timeout = 2 * time.Second
	began := time.Now()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			q := *r
			got := c.Call(t.Context(), &q)
			// On a busy machine even the connection may take longer.
			if got.Failure != timer.FailureAuth ||
				got.Error != "no answer of the token server within 2s" &&
					!strings.HasPrefix(
						got.Error,
						"no connection in time: asking the token server",
					) {
				t.Errorf("%+v", got)
			}
		})
	}
	all.Wait()
	require.Less(
		t,
		time.Since(began),
		8*time.Second,
		"each waiter gives up at its own deadline, not one after the other",
	)

	r.Target.OAuth2 = &timer.OAuth2{
		TokenURL: "http://169.254.169.254/token",
		ClientID: "me",
		Secret:   seal,
	}
	got := c.Call(t.Context(), r)
	require.Equal(t, callback.Reject, got.Class)
	require.Equal(t, timer.FailureRefused, got.Failure)
	redirecting := httptest.NewServer(
		http.RedirectHandler(tokens.URL, http.StatusTemporaryRedirect),
	)
	t.Cleanup(redirecting.Close)
	loose := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	r.Target.OAuth2 = &timer.OAuth2{TokenURL: redirecting.URL, ClientID: "me", Secret: seal}
	require.Equal(
		t,
		timer.FailureAuth,
		loose.Call(t.Context(), r).Failure,
		"a secret is not sent after a redirect",
	)
	require.Zero(t, calls.Load())
}

// TestATokenServerThatSaysTooMuch checks that only a valid error code of a token server is
// recorded, because its answer may contain the secret and is unbounded.
func TestATokenServerThatSaysTooMuch(t *testing.T) {
	t.Parallel()
	const secret = "hunter_secret"
	ring := newKeyring(t)
	for name, tt := range map[string]struct{ answer, want string }{
		"a code":             {`HTTP/1.1 400 x` + "\r\nContent-Type: application/json\r\n\r\n" + `{"error":"invalid_scope"}`, "the token server answered 400: invalid_scope"},
		"a long code":        {`HTTP/1.1 400 x` + "\r\nContent-Type: application/json\r\n\r\n" + `{"error":"` + strings.Repeat("x", 41) + `"}`, "the token server answered 400"},
		"a text":             {`HTTP/1.1 400 x` + "\r\nContent-Type: application/json\r\n\r\n" + `{"error":"Your secret is ` + secret + `"}`, "the token server answered 400"},
		"the secret":         {`HTTP/1.1 400 x` + "\r\nContent-Type: application/json\r\n\r\n" + `{"error":"` + secret + `"}`, "the token server answered 400: REDACTED"},
		"no HTTP at all":     {"HTTP/1.1 " + secret + "\r\n\r\n", "REDACTED"},
		"no JSON that is it": {`HTTP/1.1 200 x` + "\r\nContent-Type: application/json\r\n\r\n" + secret, "the token server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := raw(t, func(c net.Conn) { _, _ = io.WriteString(c, tt.answer) })
			c := newCaller(
				t,
				callback.HTTPOptions{
					AllowPrivate: true,
					NetOptions:   callback.NetOptions{Secrets: ring},
				},
			)
			r := requestTo("http://127.0.0.1:1/")
			r.App = "shop"
			r.Target.OAuth2 = &timer.OAuth2{
				TokenURL: address,
				ClientID: "me",
				Secret:   ring.Seal(encryption.NewSecret(secret), callback.SecretBinding("shop")),
			}
			got := c.Call(t.Context(), r)
			require.Equal(t, timer.FailureAuth, got.Failure, got.Error)
			require.NotContains(t, got.Error, secret)
			require.Contains(t, got.Error, tt.want)
			require.NotContains(t, got.Error, "xxx")
		})
	}
}

func TestATokenThatLivesForSecondsIsUsedAgain(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t)
	tokens.set(func() { tokens.expires = 8 })
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	ring := newKeyring(t)
	c := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	r := requestTo(server.URL)
	r.App = "shop"
	r.Target.OAuth2 = &timer.OAuth2{
		TokenURL: tokens.URL,
		ClientID: "me",
		Secret:   ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding("shop")),
	}
	for range 10 {
		require.Equal(t, callback.Success, c.Call(t.Context(), r).Class)
	}
	require.EqualValues(t, 1, tokens.given.Load())
}

// TestAServerOfGRPCRefusesACachedToken checks that an attempt with a cached token calls once, and
// that the next one gets a new token.
func TestAServerOfGRPCRefusesACachedToken(t *testing.T) {
	t.Parallel()
	tokens := newTokenServer(t)
	cert, key := newCert(t, "callback.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	require.NoError(t, err)
	var calls atomic.Int32
	address := serveGRPC(t, &receiver{
		answer: func(ctx context.Context, _ *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			if calls.Add(1) > 1 && md.Get("authorization")[0] == "Bearer token-1" {
				return nil, status.Error(codes.Unauthenticated, "revoked")
			}
			return &carillonv1.DeliverResponse{}, nil
		},
	}, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	ring := newKeyring(t)
	o := callback.NetOptions{Secrets: ring}
	web := newCaller(t, callback.HTTPOptions{AllowPrivate: true, NetOptions: o})
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true, NetOptions: o, Tokens: web})
	r := grpcRequest("grpcs://" + address)
	r.App, r.Target.TLS = "shop", &timer.TLS{CA: cert, ServerName: "callback.example"}
	r.Target.OAuth2 = &timer.OAuth2{
		TokenURL: tokens.URL,
		ClientID: "me",
		Secret:   ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding("shop")),
	}
	require.Equal(t, callback.Success, g.Call(t.Context(), r).Class)
	got := g.Call(t.Context(), r)
	require.Equal(t, callback.Retry, got.Class)
	require.EqualValues(t, codes.Unauthenticated, got.StatusCode)
	require.Contains(t, got.Error, "revoked: the token was a cached one")
	require.EqualValues(t, 2, calls.Load())
	require.Equal(t, callback.Success, g.Call(t.Context(), r).Class)
	require.EqualValues(t, 2, tokens.given.Load())
}
