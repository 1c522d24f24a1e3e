package pulsaradmin_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/oauth2"

	"github.com/carillon-timer/carillon/libs/bus/pulsaradmin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, o pulsaradmin.Options) (*http.Client, string) {
	t.Helper()
	transport, err := pulsaradmin.NewTransport(o)
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, transport.Base()
}

// broker is a server that counts its requests and answers with their bodies.
func broker(t *testing.T) (host string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), requests
}

// closed returns an address that refuses connections.
func closed(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func put(t *testing.T, c *http.Client, url string) (body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodPut,
		url,
		strings.NewReader("text"),
	)
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// TestNextAddress: a request goes to the next address, with its body, while one refuses
// connections. The following requests begin there.
func TestNextAddress(t *testing.T) {
	t.Parallel()
	host, requests := broker(t)
	c, base := client(t, pulsaradmin.Options{
		URL: "http://" + closed(t) + "," + closed(t) + "," + host + "/",
	})
	for n := range 3 {
		got, err := put(t, c, base+"/x")
		require.NoError(t, err)
		require.Equal(t, "text", got)
		require.EqualValues(t, n+1, requests.Load())
	}
}

func TestEveryAddressRefuses(t *testing.T) {
	t.Parallel()
	c, base := client(t, pulsaradmin.Options{URL: "http://" + closed(t) + "," + closed(t)})
	_, err := put(t, c, base+"/x")
	require.ErrorContains(t, err, "connection refused")
}

// TestArrivedRequestIsNotRepeated: a broker that closes the connection may have done the work.
func TestArrivedRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int32
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(broken.Close)
	host, requests := broker(t)
	c, base := client(t, pulsaradmin.Options{
		URL: "http://" + broken.Listener.Addr().String() + "," + host,
	})
	_, err := put(t, c, base+"/x")
	require.Error(t, err)
	require.EqualValues(t, 1, arrived.Load())
	require.Zero(t, requests.Load())
	_, err = put(t, c, base+"/x")
	require.NoError(t, err, "the next request goes to the other broker")
	require.EqualValues(t, 1, requests.Load())
}

// TestRedirectKeepsToken: the broker that owns a topic wants the same token. Its host has another
// name.
func TestRedirectKeepsToken(t *testing.T) {
	t.Parallel()
	var token atomic.Value
	owner := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
	}))
	t.Cleanup(owner.Close)
	_, port, err := net.SplitHostPort(owner.Listener.Addr().String())
	require.NoError(t, err)
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://localhost:"+port+"/x", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(first.Close)
	c, base := client(t, pulsaradmin.Options{
		URL:    first.URL + "," + first.Listener.Addr().String(),
		Tokens: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "abc"}),
	})
	_, err = put(t, c, base+"/x")
	require.NoError(t, err)
	require.Equal(t, "Bearer abc", token.Load())
}

func TestSplitURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"pulsar://a:1":             {"a:1"},
		"pulsar://a:1,b:2,[::1]:3": {"a:1", "b:2", "[::1]:3"},
		"http://a:1,b:2/":          {"a:1", "b:2"},
		"http://u:p@a:1":           {"a:1"},
	} {
		_, hosts, err := pulsaradmin.SplitURL(in)
		require.NoError(t, err, in)
		require.Equal(t, want, hosts)
	}
	for _, in := range []string{"", "a:1", "http://", "http://a,,b", "http://a:1,b:x", "http://a,u@b"} {
		_, _, err := pulsaradmin.SplitURL(in)
		require.Error(t, err, in)
	}
}

func TestOnlyHTTP(t *testing.T) {
	t.Parallel()
	_, err := pulsaradmin.NewTransport(
		pulsaradmin.Options{URL: "pulsar://a:1", AnswerTimeout: time.Second},
	)
	require.ErrorContains(t, err, "http(s)://host:port")
}
