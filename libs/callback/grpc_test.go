package callback_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// receiver is a gRPC receiver whose answer can be set.
type receiver struct {
	carillonv1.UnimplementedCallbackServer
	answer func(ctx context.Context, q *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error)
	conns  atomic.Int32
}

func (r *receiver) Deliver(
	ctx context.Context,
	q *carillonv1.DeliverRequest,
) (*carillonv1.DeliverResponse, error) {
	return r.answer(ctx, q)
}

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	n *atomic.Int32
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

func serveGRPC(t *testing.T, r *receiver, o ...grpc.ServerOption) (address string) {
	t.Helper()
	address, _ = serveGRPCAt(t, "127.0.0.1:0", r, o...)
	return address
}

func serveGRPCAt(
	t *testing.T, at string, r *receiver, o ...grpc.ServerOption,
) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	for n := 0; err != nil && n < 100; n++ { // another test may have the port for a moment
		<-time.After(10 * time.Millisecond)
		l, err = net.Listen("tcp", at)
	}
	require.NoError(t, err)
	s := grpc.NewServer(o...)
	carillonv1.RegisterCallbackServer(s, r)
	go func() { _ = s.Serve(counting{l, &r.conns}) }()
	t.Cleanup(s.Stop)
	return l.Addr().String(), s.Stop
}

func newGRPC(t *testing.T, o callback.GRPCOptions) *callback.GRPC {
	t.Helper()
	g, err := callback.NewGRPC(o)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

func grpcRequest(url string) *callback.Request {
	r := requestTo(url)
	r.Target = timer.Target{Kind: timer.KindGRPC, URL: url, Body: "b\x01dy"}
	r.Name, r.Labels = "close the day", map[string]string{"team": "till"}
	return r
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	var got *carillonv1.DeliverRequest
	var md metadata.MD
	rec := &receiver{
		answer: func(ctx context.Context, q *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
			got = q
			md, _ = metadata.FromIncomingContext(ctx)
			return &carillonv1.DeliverResponse{
				Message: "thanks for " + strings.Join(md["x-api-key"], ""),
			}, nil
		},
	}
	address := serveGRPC(t, rec)
	ring := newKeyring(t)
	g := newGRPC(
		t,
		callback.GRPCOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	r := grpcRequest("grpc://" + address)
	r.Target.Headers = map[string][]string{"X-Many": {"1", "2"}}
	r.Target.SecretHeaders = map[string]timer.Sealed{
		"X-Api-Key": ring.Seal(encryption.NewSecret("hunter2"), callback.SecretBinding("shop")),
	}
	key, err := signing.NewKey(signing.HMAC)
	require.NoError(t, err)
	r.Signer, err = signing.NewSigner(key)
	require.NoError(t, err)
	for range 5 {
		require.Equal(t, callback.Result{Excerpt: "thanks for REDACTED"}, g.Call(t.Context(), r))
	}
	require.EqualValues(t, 1, rec.conns.Load())
	require.Equal(t, "b\x01dy", string(got.GetBody()))
	require.Equal(t, "42-1767225600123", got.GetFireId())
	require.EqualValues(t, 42, got.GetTimerId())
	require.EqualValues(t, 1767225600123, got.GetDueMs())
	require.EqualValues(t, 2, got.GetAttempt())
	require.Equal(t, "schedule", got.GetCause())
	require.Equal(t, "close the day", got.GetTimerName())
	require.Equal(t, map[string]string{"team": "till"}, got.GetLabels())
	require.Equal(t, []string{"1", "2"}, md["x-many"])
	for name, want := range map[string]string{
		"carillon-timer-id": "42", "carillon-fire-id": "42-1767225600123", "carillon-due": "2026-01-01T00:00:00.123Z", "carillon-attempt": "2",
		"carillon-cause": "schedule", "idempotency-key": "42-1767225600123", "webhook-id": "42-1767225600123",
	} {
		require.Equal(t, []string{want}, md[name], name)
	}
	require.Len(t, md["traceparent"], 1)
	require.Contains(t, md["webhook-signature"][0], "v1,")
}

func TestGRPCAnswers(t *testing.T) {
	t.Parallel()
	retryInfo, err := status.New(codes.ResourceExhausted, "later").
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	require.NoError(t, err)
	tests := []struct {
		name    string
		answer  func(ctx context.Context) (*carillonv1.DeliverResponse, error)
		class   callback.Class
		code    codes.Code
		failure timer.Failure
		after   time.Duration
	}{
		{
			"ok",
			func(context.Context) (*carillonv1.DeliverResponse, error) { return &carillonv1.DeliverResponse{}, nil },
			callback.Success,
			0,
			"",
			0,
		},
		{"accepted", func(context.Context) (*carillonv1.DeliverResponse, error) {
			return &carillonv1.DeliverResponse{Accepted: true, CompleteWithinMs: 1000}, nil
		}, callback.Accepted, 0, "", 0},
		{"an error", func(context.Context) (*carillonv1.DeliverResponse, error) {
			return nil, status.Error(codes.FailedPrecondition, "no\nway")
		}, callback.Retry, codes.FailedPrecondition, timer.FailureStatus, 0},
		{
			"with a retry delay",
			func(context.Context) (*carillonv1.DeliverResponse, error) { return nil, retryInfo.Err() },
			callback.Retry,
			codes.ResourceExhausted,
			timer.FailureStatus,
			7 * time.Second,
		},
		{"too long", func(context.Context) (*carillonv1.DeliverResponse, error) {
			return &carillonv1.DeliverResponse{Message: strings.Repeat("x", 100<<10)}, nil
		}, callback.Retry, 0, timer.FailureTooLarge, 0},
		{"never", func(ctx context.Context) (*carillonv1.DeliverResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, callback.Retry, 0, timer.FailureTimeout, 0},
		{"its own deadline", func(context.Context) (*carillonv1.DeliverResponse, error) {
			return nil, status.Error(codes.DeadlineExceeded, "the till took too long")
		}, callback.Retry, codes.DeadlineExceeded, timer.FailureStatus, 0},
		{"its own cancellation", func(context.Context) (*carillonv1.DeliverResponse, error) {
			return nil, status.Error(codes.Canceled, "the till is closed")
		}, callback.Retry, codes.Canceled, timer.FailureStatus, 0},
		{"says unavailable", func(context.Context) (*carillonv1.DeliverResponse, error) {
			return nil, status.Error(codes.Unavailable, "down")
		}, callback.Retry, codes.Unavailable, timer.FailureStatus, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address := serveGRPC(
				t,
				&receiver{
					answer: func(ctx context.Context, _ *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
						return tt.answer(ctx)
					},
				},
			)
			g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
			r := grpcRequest("grpc://" + address)
			r.Timeout, r.Token, r.Target.Async = 500*time.Millisecond, "t", timer.Duration(
				time.Minute,
			)
			got := g.Call(t.Context(), r)
			require.Equal(t, tt.class, got.Class, "%+v", got)
			require.EqualValues(t, tt.code, got.StatusCode)
			require.Equal(t, tt.failure, got.Failure)
			require.Equal(t, tt.after, got.RetryAfter)
			require.NotContains(t, got.Error, "\n")
			if tt.class == callback.Accepted {
				require.Equal(t, time.Second, got.CompleteWithin)
			}
		})
	}
}

// TestMetadataThatIsNotPrintableIsRejected checks that such an attempt is not retried, because
// metadata can never hold it.
func TestMetadataThatIsNotPrintableIsRejected(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t)
	g := newGRPC(
		t,
		callback.GRPCOptions{AllowPrivate: true, NetOptions: callback.NetOptions{Secrets: ring}},
	)
	for name, change := range map[string]func(r *callback.Request){
		"a template": func(r *callback.Request) {
			r.Target.Templates, r.Target.Headers, r.Labels = true, map[string][]string{"X-City": {"{{label.city}}"}}, map[string]string{"city": "Zürich"}
		},
		"a secret": func(r *callback.Request) {
			r.Target.SecretHeaders = map[string]timer.Sealed{"X-City": ring.Seal(encryption.NewSecret("Zürich"), callback.SecretBinding(r.App))}
		},
	} {
		r := grpcRequest("grpc://127.0.0.1:1")
		change(r)
		got := g.Call(t.Context(), r)
		require.Equal(t, callback.Reject, got.Class, name)
		require.Equal(t, timer.FailureInvalid, got.Failure)
		require.Contains(t, got.Error, "x-city")
		require.NotContains(t, got.Error, "Zürich")
	}
}

func TestGRPCConnectionOptions(t *testing.T) {
	t.Parallel()
	cert, key := newCert(t, "callback.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	require.NoError(t, err)
	rec := &receiver{
		answer: func(context.Context, *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
			return &carillonv1.DeliverResponse{}, nil
		},
	}
	address := serveGRPC(t, rec, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
	call := func(url string, o *timer.TLS) callback.Result {
		r := grpcRequest(url)
		r.Target.TLS = o
		return g.Call(t.Context(), r)
	}
	require.Equal(
		t,
		callback.Success,
		call("grpcs://"+address, &timer.TLS{CA: cert, ServerName: "callback.example"}).Class,
	)
	require.Equal(t, timer.FailureTLS, call("grpcs://"+address, nil).Failure)
	require.Equal(t, callback.Reject, call("grpcs://"+address, &timer.TLS{Insecure: true}).Class)
	require.Equal(t, callback.Reject, call("http://"+address, nil).Class)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := l.Addr().String()
	require.NoError(t, l.Close())
	res := call("grpc://"+closed, nil)
	require.Equal(t, timer.FailureConnect, res.Failure, res.Error)
	require.Zero(t, res.StatusCode, "nobody answered")
	require.Equal(t, timer.FailureDNS, call("grpc://no-such-host.invalid:443", nil).Failure)

	strict := newGRPC(t, callback.GRPCOptions{})
	for _, url := range []string{"grpc://" + address, "grpc://169.254.169.254:443", "grpc://localhost:443", "grpc://[::ffff:10.0.0.1]:443"} {
		res = strict.Call(t.Context(), grpcRequest(url))
		require.Equal(t, callback.Reject, res.Class, "%s: %s", url, res.Error)
		require.Equal(t, timer.FailureRefused, res.Failure)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, timer.FailureCanceled, g.Call(ctx, grpcRequest("grpcs://"+address)).Failure)
	_, err = callback.NewGRPC(callback.GRPCOptions{DialTimeout: -1})
	require.ErrorContains(t, err, "negative")
}

// TestGRPCWithoutAnAnswer checks that a missing answer has no status code, although gRPC reports
// 14.
func TestGRPCWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	cert, key := newCert(t, "callback.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	require.NoError(t, err)
	rec := &receiver{
		answer: func(context.Context, *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
			return &carillonv1.DeliverResponse{}, nil
		},
	}
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(cert)))
	mutual := serveGRPC(t, rec, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    roots,
	})))
	secure := serveGRPC(t, rec, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	plain := serveGRPC(t, rec)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	go func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			_ = conn.Close()
		}
	}()
	alerting, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = alerting.Close() })
	go func() {
		for conn, err := alerting.Accept(); err == nil; conn, err = alerting.Accept() {
			_, _ = conn.Write([]byte{21, 3, 1, 0, 2, 2, 70}) // fatal, protocol_version
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	trusted := &timer.TLS{CA: cert, ServerName: "callback.example"}
	for name, tt := range map[string]struct {
		url  string
		tls  *timer.TLS
		want []timer.Failure // several where the visible one depends on a race
	}{
		"no client certificate":      {"grpcs://" + mutual, trusted, []timer.Failure{timer.FailureTLS}},
		"no TLS to a server of it":   {"grpc://" + secure, nil, []timer.Failure{timer.FailureReset}},
		"no TLS to one that says so": {"grpc://" + alerting.Addr().String(), nil, []timer.Failure{timer.FailureTLS}},
		"TLS to a server without it": {"grpcs://" + plain, trusted, []timer.Failure{timer.FailureTLS}},
		"HTTP":                       {"grpc://" + strings.TrimPrefix(web.URL, "http://"), nil, []timer.Failure{timer.FailureProtocol, timer.FailureReset}},
		"a connection that ends":     {"grpc://" + silent.Addr().String(), nil, []timer.Failure{timer.FailureReset}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
			r := grpcRequest(tt.url)
			r.Target.TLS = tt.tls
			got := g.Call(t.Context(), r)
			require.Equal(t, callback.Retry, got.Class)
			require.Zero(t, got.StatusCode, got.Error)
			require.Contains(t, tt.want, got.Failure, got.Error)
			require.True(t, callback.EndpointFailed(&got))
		})
	}
}

// TestGRPCConnectsAtEachAttempt checks that the first attempt after a server is back reaches it,
// however many failed before.
func TestGRPCConnectsAtEachAttempt(t *testing.T) {
	t.Parallel()
	r := &receiver{answer: func(
		context.Context, *carillonv1.DeliverRequest,
	) (*carillonv1.DeliverResponse, error) {
		return new(carillonv1.DeliverResponse), nil
	}}
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
	address, stop := serveGRPCAt(t, "127.0.0.1:0", r)
	request := grpcRequest("grpc://" + address)
	require.Equal(t, callback.Success, g.Call(t.Context(), request).Class)
	for range 3 {
		stop()
		for range 3 {
			got := g.Call(t.Context(), request)
			require.NotEqual(t, callback.Success, got.Class)
		}
		_, stop = serveGRPCAt(t, address, r)
		got := g.Call(t.Context(), request)
		require.Equal(t, callback.Success, got.Class, got.Error)
	}
}

// TestGRPCKeepsAConnectionThatRefusesStreams: a server that is overloaded refuses single streams. New
// connections would add to its load.
func TestGRPCKeepsAConnectionThatRefusesStreams(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns atomic.Int64
	var served sync.WaitGroup
	serve := func(conn net.Conn) {
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		err := f.WriteSettings()
		for err == nil {
			var frame http2.Frame
			if frame, err = f.ReadFrame(); err != nil {
				return
			}
			if h, ok := frame.(*http2.HeadersFrame); ok {
				err = f.WriteRSTStream(h.StreamID, http2.ErrCodeRefusedStream)
			}
		}
	}
	served.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			conns.Add(1)
			served.Go(func() { serve(conn) })
		}
	})
	g, err := callback.NewGRPC(callback.GRPCOptions{AllowPrivate: true})
	require.NoError(t, err)
	for range 20 {
		got := g.Call(t.Context(), grpcRequest("grpc://"+l.Addr().String()))
		require.Equal(t, callback.Retry, got.Class, got.Error)
	}
	require.EqualValues(t, 1, conns.Load())
	g.Close()
	require.NoError(t, l.Close())
	served.Wait()
}

// TestStreamsOfOneAppAreNoOthers has a server that takes few calls over one connection.
func TestStreamsOfOneAppAreNoOthers(t *testing.T) {
	t.Parallel()
	begun, over := make(chan struct{}), make(chan struct{})
	rec := &receiver{answer: func(
		_ context.Context, q *carillonv1.DeliverRequest,
	) (*carillonv1.DeliverResponse, error) {
		if q.GetApp() == "slow" {
			close(begun)
			<-over
		}
		return &carillonv1.DeliverResponse{}, nil
	}}
	url := "grpc://" + serveGRPC(t, rec, grpc.MaxConcurrentStreams(1))
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
	slow, other := grpcRequest(url), grpcRequest(url)
	slow.App, slow.Timeout = "slow", time.Minute
	var call sync.WaitGroup
	call.Go(func() {
		if got := g.Call(t.Context(), slow); got.Class != callback.Success {
			t.Error(got)
		}
	})
	<-begun
	got := g.Call(t.Context(), other)
	close(over)
	call.Wait()
	require.Equal(t, callback.Result{}, got)
}

// TestOneAppUsesFurtherConnections makes more calls at once than a server takes over one connection.
// None is answered before all are there.
func TestOneAppUsesFurtherConnections(t *testing.T) {
	t.Parallel()
	const calls = 256
	var there atomic.Int32
	complete := make(chan struct{})
	rec := &receiver{answer: func(
		ctx context.Context, _ *carillonv1.DeliverRequest,
	) (*carillonv1.DeliverResponse, error) {
		if there.Add(1) == calls {
			close(complete)
		}
		select {
		case <-complete:
		case <-ctx.Done():
		}
		return &carillonv1.DeliverResponse{}, nil
	}}
	url := "grpc://" + serveGRPC(t, rec, grpc.MaxConcurrentStreams(100))
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			r := grpcRequest(url)
			r.Timeout = time.Minute
			if got := g.Call(t.Context(), r); got.Class != callback.Success {
				t.Error(got)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 3, rec.conns.Load())
}

// TestARefusedClientCertificateIsNamed checks that the alert of a server is reported, whichever of
// the client's first writes and reads fails by it.
func TestARefusedClientCertificateIsNamed(t *testing.T) {
	t.Parallel()
	cert, key := newCert(t, "callback.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	require.NoError(t, err)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		address := serveGRPC(t, &receiver{}, grpc.Creds(credentials.NewTLS(&tls.Config{
			MinVersion:   version,
			MaxVersion:   version,
			Certificates: []tls.Certificate{pair},
			ClientAuth:   tls.RequireAnyClientCert,
		})))
		for range 20 { // which one fails is a race
			g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
			r := grpcRequest("grpcs://" + address)
			r.Target.TLS = &timer.TLS{CA: cert, ServerName: "callback.example"}
			got := g.Call(t.Context(), r)
			require.Equal(t, timer.FailureTLS, got.Failure, got.Error)
			require.Contains(t, got.Error, "remote error: tls: ")
		}
	}
}
