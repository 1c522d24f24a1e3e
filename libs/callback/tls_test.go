package callback_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// caOf returns the certificate of a test server as PEM.
func caOf(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// newCert returns a self-signed certificate and its key.
func newCert(t testing.TB, name string) (cert, key string) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(
			1,
		),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		DNSNames:              []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth,
			x509.ExtKeyUsageServerAuth,
		},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &priv.PublicKey, priv)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(priv)
	require.NoError(t, err)
	return string(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		), string(
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		)
}

func TestTLSOptions(t *testing.T) {
	t.Parallel()
	var serverName string
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { serverName = r.TLS.ServerName },
		),
	)
	server.StartTLS()
	t.Cleanup(server.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	call := func(o *timer.TLS) callback.Result {
		r := requestTo(server.URL)
		r.Target.TLS = o
		return c.Call(t.Context(), r)
	}
	require.Equal(t, timer.FailureTLS, call(nil).Failure, "nobody vouches for it")
	require.Equal(t, callback.Success, call(&timer.TLS{CA: caOf(server)}).Class)
	require.Empty(t, serverName, "an address is no name")
	require.Equal(
		t,
		callback.Success,
		call(&timer.TLS{CA: caOf(server), ServerName: "example.com"}).Class,
		"the certificate names it, too",
	)
	require.Equal(t, "example.com", serverName)
	require.Equal(
		t,
		timer.FailureTLS,
		call(&timer.TLS{CA: caOf(server), ServerName: "another.example"}).Failure,
	)
	other, _ := newCert(t, "other")
	require.Equal(t, timer.FailureTLS, call(&timer.TLS{CA: other}).Failure)
	res := call(&timer.TLS{Insecure: true})
	require.Equal(t, callback.Reject, res.Class, "the deployment does not allow it")
	require.Contains(t, res.Error, "not authenticated")
	require.Contains(t, call(&timer.TLS{CA: "nonsense"}).Error, "no certificate")

	loose := newCaller(
		t,
		callback.HTTPOptions{
			AllowPrivate: true,
			NetOptions:   callback.NetOptions{AllowInsecure: true},
		},
	)
	r := requestTo(server.URL)
	r.Target.TLS = &timer.TLS{Insecure: true}
	require.Equal(t, callback.Success, loose.Call(t.Context(), r).Class)
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	cert, key := newCert(t, "client")
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM([]byte(cert)))
	var from string
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			from = r.TLS.PeerCertificates[0].Subject.CommonName
		}),
	)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.StartTLS()
	t.Cleanup(server.Close)
	ring := newKeyring(t)
	c := newCaller(
		t,
		callback.HTTPOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	call := func(app string, o timer.TLS) callback.Result {
		r := requestTo(server.URL)
		r.App = app
		o.CA = caOf(server)
		r.Target.TLS = &o
		return c.Call(t.Context(), r)
	}
	sealed := ring.Seal(encryption.NewSecret(key), callback.SecretBinding("shop"))
	require.Equal(t, callback.Success, call("shop", timer.TLS{Cert: cert, Key: sealed}).Class)
	require.Equal(t, "client", from)
	require.Equal(t, timer.FailureTLS, call("shop", timer.TLS{}).Failure)
	require.Equal(
		t,
		callback.Reject,
		call("another", timer.TLS{Cert: cert, Key: sealed}).Class,
		"neither the key nor a connection that is open",
	)

	require.NoError(t, callback.CheckKeyPair("tls", cert, encryption.NewSecret(key)))
	_, otherKey := newCert(t, "other")
	err := callback.CheckKeyPair("tls", cert, encryption.NewSecret(otherKey))
	require.ErrorContains(t, err, "tls.cert")
	require.NotContains(t, err.Error(), otherKey[30:60])
}

func TestHTTPVersions(t *testing.T) {
	t.Parallel()
	var proto string
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { proto = r.Proto })
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewUnstartedServer(handler)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	t.Cleanup(plain.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	for _, tt := range []struct {
		url  string
		tls  *timer.TLS
		mode timer.HTTP2
		want string
	}{
		{secure.URL, &timer.TLS{CA: caOf(secure)}, timer.HTTP2Offered, "HTTP/2.0"},
		{secure.URL, &timer.TLS{CA: caOf(secure)}, timer.HTTP2Never, "HTTP/1.1"},
		{secure.URL, &timer.TLS{CA: caOf(secure)}, timer.HTTP2Always, "HTTP/2.0"},
		{plain.URL, nil, timer.HTTP2Offered, "HTTP/1.1"},
		{plain.URL, nil, timer.HTTP2Never, "HTTP/1.1"},
		{plain.URL, nil, timer.HTTP2Always, "HTTP/2.0"},
	} {
		r := requestTo(tt.url)
		r.Target.TLS, r.Target.HTTP2, r.Target.Body = tt.tls, tt.mode, "x"
		res := c.Call(t.Context(), r)
		require.Equal(t, callback.Success, res.Class, res.Error)
		require.Equal(t, tt.want, proto, "%+v", tt)
	}
}

// TestAServerWithoutHTTP2IsNotCalled checks that a target which demands HTTP/2 sends nothing to a
// server that does not speak it.
func TestAServerWithoutHTTP2IsNotCalled(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost { // the preface of HTTP/2 is read as a request, too
			calls.Add(1)
		}
	})
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	// It offers HTTP/1.1 by ALPN.
	offers := httptest.NewTLSServer(handler)
	t.Cleanup(offers.Close)
	// It knows nothing of ALPN.
	silent := httptest.NewUnstartedServer(handler)
	cert, key := newCert(t, "example.com")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	require.NoError(t, err)
	silent.Listener = tls.NewListener(
		silent.Listener,
		&tls.Config{Certificates: []tls.Certificate{pair}},
	)
	silent.Start()
	t.Cleanup(silent.Close)
	c := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	for _, tt := range []struct {
		url     string
		tls     *timer.TLS
		failure timer.Failure
		err     string
	}{
		{plain.URL, nil, timer.FailureProtocol, "http2: "},
		{offers.URL, &timer.TLS{CA: caOf(offers)}, timer.FailureTLS, "no application protocol"},
		{
			strings.Replace(silent.URL, "http:", "https:", 1),
			&timer.TLS{CA: cert, ServerName: "example.com"},
			timer.FailureProtocol,
			"the server does not speak HTTP/2, which the target's http2 demands",
		},
	} {
		r := requestTo(tt.url)
		r.Target.HTTP2, r.Target.TLS = timer.HTTP2Always, tt.tls
		got := c.Call(t.Context(), r)
		require.Equal(t, callback.Retry, got.Class, tt.url)
		require.Equal(t, tt.failure, got.Failure, got.Error)
		require.Contains(t, got.Error, tt.err)
	}
	require.Zero(t, calls.Load())
}
