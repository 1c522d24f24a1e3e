package callback_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// serveFrames answers each request of HTTP/2 at its end by frames of its own.
func serveFrames(
	t *testing.T, l net.Listener, answer func(f *http2.Framer, stream uint32) error,
) {
	t.Helper()
	serve := func(conn net.Conn) error {
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return err
		}
		f := http2.NewFramer(conn, conn)
		if err := f.WriteSettings(); err != nil {
			return err
		}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return err
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					err = f.WriteSettingsAck()
				}
			case interface{ StreamEnded() bool }: // headers or data
				if frame.StreamEnded() {
					err = answer(f, frame.(http2.Frame).Header().StreamID)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	var served sync.WaitGroup
	served.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			served.Go(func() {
				_ = serve(conn) // until the client closes
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); served.Wait() })
}

// writeHeader writes a header of HTTP/2, of names and values in turn.
func writeHeader(f *http2.Framer, stream uint32, end bool, fields ...string) error {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return err
		}
	}
	return f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true,
	})
}

// TestABadHeaderOfAnAnswerIsNoInvalidTarget checks that the text of such an error, which is like that
// about a header of a request, fails only the attempt.
func TestABadHeaderOfAnAnswerIsNoInvalidTarget(t *testing.T) {
	t.Parallel()
	cert, key := newCert(t, "callback.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2"},
	})
	require.NoError(t, err)
	serveFrames(t, l, func(f *http2.Framer, stream uint32) error {
		return writeHeader(f, stream, true, ":status", "200", "x-foo", "a\x7f")
	})
	h := newCaller(t, callback.HTTPOptions{AllowPrivate: true})
	r := requestTo("https://" + l.Addr().String())
	r.Target.TLS = &timer.TLS{CA: cert, ServerName: "callback.example"}
	got := h.Call(t.Context(), r)
	require.Contains(t, got.Error, "invalid header field value")
	require.Equal(t, callback.Retry, got.Class, got.Error)
	require.Equal(t, timer.FailureReset, got.Failure, got.Error)
}

// TestAHeaderThatIsTooLargeIsNotSent has servers that say how large a header they take. The failure
// is not the endpoint's.
func TestAHeaderThatIsTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	)
	web.EnableHTTP2, web.Config.MaxHeaderBytes = true, 1024
	web.StartTLS()
	t.Cleanup(web.Close)
	h := newCaller(t, callback.HTTPOptions{
		AllowPrivate: true, NetOptions: callback.NetOptions{AllowInsecure: true},
	})
	overHTTP := requestTo(web.URL)
	overHTTP.Target.TLS = &timer.TLS{Insecure: true}
	// The limit is known once the server has answered.
	require.Equal(t, callback.Success, h.Call(t.Context(), overHTTP).Class)

	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
	overGRPC := grpcRequest("grpc://" + serveGRPC(t, &receiver{}, grpc.MaxHeaderListSize(1024)))

	large := map[string][]string{"X-Large": {strings.Repeat("x", 2<<10)}}
	overHTTP.Target.Headers, overGRPC.Target.Headers = large, large
	for _, got := range []callback.Result{
		h.Call(t.Context(), overHTTP), g.Call(t.Context(), overGRPC),
	} {
		require.Equal(t, callback.Retry, got.Class, got.Error)
		require.Equal(t, timer.FailureInvalid, got.Failure, got.Error)
		require.True(t, strings.HasPrefix(got.Error, "not sent: "), got.Error)
		require.Zero(t, got.StatusCode)
		require.False(t, callback.ConcernsEndpoint(&got))
	}
}
