package callback_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// serveStream serves every method by a handler, which may violate the protocol of a unary one.
func serveStream(t *testing.T, handle func(s grpc.ServerStream) error) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if err := stream.RecvMsg(new(carillonv1.DeliverRequest)); err != nil {
			return err //nolint:wrapcheck // a status
		}
		return handle(stream)
	}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// TestOnlyCodesOfTheServerAreAnswers checks that codes which the client of gRPC makes are not taken
// for those of the receiver, which retry.no_retry is about.
func TestOnlyCodesOfTheServerAreAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, tt := range map[string]struct {
		handle  func(s grpc.ServerStream) error
		code    codes.Code
		failure timer.Failure
		text    string
	}{
		"a code after headers": {
			func(s grpc.ServerStream) error {
				if err := s.SendHeader(metadata.Pairs("x-early", "1")); err != nil {
					return err
				}
				return status.Error(codes.ResourceExhausted, "received message larger than max")
			}, codes.ResourceExhausted, timer.FailureStatus,
			"answered ResourceExhausted: received message larger than max",
		},
		"a code after a message": {
			func(s grpc.ServerStream) error {
				if err := s.SendMsg(&carillonv1.DeliverResponse{}); err != nil {
					return err
				}
				return status.Error(codes.Internal, "after all")
			}, codes.Internal, timer.FailureStatus, "answered Internal: after all",
		},
		"headers and no more": {
			func(s grpc.ServerStream) error {
				if err := s.SendHeader(metadata.Pairs("x-early", "1")); err != nil {
					return err
				}
				<-ctx.Done() // its own context ends with the caller's, and it might answer first
				return nil
			}, 0, timer.FailureTimeout, "no answer within 300ms",
		},
		"no message": {
			func(grpc.ServerStream) error { return nil },
			0, timer.FailureProtocol, "answered OK without a message",
		},
		"two messages": {
			func(s grpc.ServerStream) error {
				if err := s.SendMsg(&carillonv1.DeliverResponse{}); err != nil {
					return err
				}
				return s.SendMsg(&carillonv1.DeliverResponse{})
			}, 0, timer.FailureProtocol, "answered with more than one message",
		},
		"another message": {
			func(s grpc.ServerStream) error {
				other := new(carillonv1.DeliverResponse)
				other.ProtoReflect().SetUnknown([]byte{3<<3 | 2, 2, 0xff}) // message, which breaks off
				return s.SendMsg(other)
			}, 0, timer.FailureProtocol, "answered OK with a message that is no DeliverResponse",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
			r := grpcRequest("grpc://" + serveStream(t, tt.handle))
			r.Timeout = 300 * time.Millisecond
			if tt.failure != timer.FailureTimeout {
				r.Timeout = 10 * time.Second
			}
			got := g.Call(t.Context(), r)
			require.Equal(t, callback.Retry, got.Class)
			require.Equal(t, tt.failure, got.Failure, got.Error)
			require.Equal(t, tt.text, got.Error)
			require.EqualValues(t, tt.code, got.StatusCode)
		})
	}
}

// TestAnErrorOfAServerThatCompressesIsAnAnswer has servers that name an encoding in their headers, and
// then send an error, or a message that is not encoded so.
func TestAnErrorOfAServerThatCompressesIsAnAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		encoding string
		message  []byte
		code     int32
		failure  timer.Failure
	}{
		"an error":          {"gzip", nil, int32(codes.InvalidArgument), timer.FailureStatus},
		"a damaged message": {"gzip", []byte("no gzip"), 0, timer.FailureProtocol},
		"another encoding":  {"snappy", []byte("snappy"), 0, timer.FailureProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			serveFrames(t, l, func(f *http2.Framer, stream uint32) error {
				if err := writeHeader(f, stream, false, ":status", "200",
					"content-type", "application/grpc", "grpc-encoding", tt.encoding); err != nil {
					return err
				}
				if tt.message != nil {
					data := append([]byte{1, 0, 0, 0, byte(len(tt.message))}, tt.message...)
					if err := f.WriteData(stream, false, data); err != nil {
						return err
					}
				}
				return writeHeader(f, stream, true, "grpc-status", "3", "grpc-message", "no till")
			})
			g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
			got := g.Call(t.Context(), grpcRequest("grpc://"+l.Addr().String()))
			require.Equal(t, callback.Retry, got.Class)
			require.Equal(t, tt.code, got.StatusCode, got.Error)
			require.Equal(t, tt.failure, got.Failure, got.Error)
		})
	}
}

// TestATextThatIsNotUTF8IsRepaired checks that the text of an answer decides nothing.
func TestATextThatIsNotUTF8IsRepaired(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer []byte
		want   callback.Result
	}{
		"a text": {[]byte{3<<3 | 2, 2, 0xc3, '('}, callback.Result{Excerpt: "\uFFFD("}},
		"all fields, and one of later": {
			[]byte{1 << 3, 1, 2 << 3, 0xe8, 7, 3<<3 | 2, 1, 0xff, 9<<3 | 2, 1, 'x'},
			callback.Result{
				Class: callback.Accepted, CompleteWithin: time.Second, Excerpt: "\uFFFD",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			address := serveStream(t, func(s grpc.ServerStream) error {
				calls.Add(1)
				raw := new(carillonv1.DeliverResponse)
				raw.ProtoReflect().SetUnknown(tt.answer)
				return s.SendMsg(raw)
			})
			g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
			r := grpcRequest("grpc://" + address)
			r.Token, r.Target.Async = "t", timer.Duration(time.Minute)
			require.Equal(t, tt.want, g.Call(t.Context(), r))
			require.EqualValues(t, 1, calls.Load())
		})
	}
}

// TestALargeGRPCAnswerIsDelivered checks that the size of an answer decides nothing, unless the
// answer could have said that the receiver completes the fire later.
func TestALargeGRPCAnswerIsDelivered(t *testing.T) {
	t.Parallel()
	address := serveGRPC(t, &receiver{
		answer: func(context.Context, *carillonv1.DeliverRequest) (*carillonv1.DeliverResponse, error) {
			return &carillonv1.DeliverResponse{Message: strings.Repeat("x", 70_000)}, nil
		},
	})
	g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
	r := grpcRequest("grpc://" + address)
	for range 20 {
		require.Equal(t, callback.Result{}, g.Call(t.Context(), r))
	}
	r.Token, r.Target.Async = "t", timer.Duration(time.Minute)
	got := g.Call(t.Context(), r)
	require.Equal(t, callback.Retry, got.Class)
	require.Equal(t, timer.FailureTooLarge, got.Failure)
	require.Zero(t, got.StatusCode)
	require.Contains(t, got.Error, "more than 65536 bytes")
}

// TestHTTPAnswersHaveNoCodeOfGRPC checks the answers of a gateway that speaks no gRPC.
func TestHTTPAnswersHaveNoCodeOfGRPC(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]timer.Failure{
		http.StatusNotFound:           timer.FailureStatus,
		http.StatusForbidden:          timer.FailureStatus,
		http.StatusServiceUnavailable: timer.FailureProtocol,
	} {
		web := httptest.NewUnstartedServer(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		web.Config.Protocols = new(http.Protocols)
		web.Config.Protocols.SetUnencryptedHTTP2(true)
		web.Start()
		t.Cleanup(web.Close)
		g := newGRPC(t, callback.GRPCOptions{AllowPrivate: true})
		got := g.Call(t.Context(), grpcRequest("grpc://"+strings.TrimPrefix(web.URL, "http://")))
		require.Equal(t, callback.Retry, got.Class)
		require.Equal(t, want, got.Failure, got.Error)
		require.Zero(t, got.StatusCode)
		require.Contains(t, got.Error, "no answer of gRPC: ")
	}
}
