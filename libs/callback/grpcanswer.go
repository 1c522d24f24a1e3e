package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// response tells what a server sent during one call. The client of gRPC reports its own failures by
// the same codes as those of a server, and only this tells them apart.
type response struct {
	headers    atomic.Bool
	trailers   atomic.Bool // with the code; they end an answer
	compressed atomic.Bool // its message, if it has one
}

// answered returns whether the code of a failed call is the server's. Trailers are not enough where
// the client may have made the code after they came:
//
//   - If the time ends at that moment, the code is that of the context. A server's own answer of
//     that code at that moment counts as none, too.
//   - The client may fail to decompress a message. A server may also say that it compresses, and
//     send an error without a message.
//
// A message that is too large is refused before its trailers come (see answerWindow).
func (s *response) answered(callCtx context.Context, err error) bool {
	if _, ok := errors.AsType[*answerError](err); ok || !s.trailers.Load() {
		return false
	}
	if s.compressed.Load() && isCompression(status.Convert(err).Message()) {
		return false
	}
	switch status.Code(err) { //nolint:exhaustive // a context makes no others
	case codes.DeadlineExceeded:
		return !timeOver(callCtx)
	case codes.Canceled:
		return callCtx.Err() == nil
	}
	return true
}

// isCompression returns whether the client of gRPC failed to decompress a message.
func isCompression(text string) bool {
	return slices.ContainsFunc([]string{
		"grpc: failed to decompress ",
		"grpc: failed to read decompressed data",
		"grpc: Decompressor is not installed ",
		"grpc: received message after decompression larger than max ",
	}, func(p string) bool { return strings.HasPrefix(text, p) })
}

// responseWatch fills in the response of a call's context.
type responseWatch struct{}

type responseKey struct{}

var _ stats.Handler = responseWatch{}

// HandleRPC implements stats.Handler. gRPC reports trailers here only if they have a code.
func (responseWatch) HandleRPC(ctx context.Context, s stats.RPCStats) {
	seen, ok := ctx.Value(responseKey{}).(*response)
	if !ok {
		return
	}
	switch s := s.(type) {
	case *stats.InHeader:
		seen.headers.Store(true)
		if s.Compression != "" && s.Compression != encoding.Identity {
			seen.compressed.Store(true)
		}
	case *stats.InTrailer:
		seen.trailers.Store(true)
	}
}

// TagRPC implements stats.Handler.
func (responseWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (responseWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// HandleConn implements stats.Handler.
func (responseWatch) HandleConn(context.Context, stats.ConnStats) {}

// deliverStream describes Deliver as a stream, which is the same on the wire. For a unary method
// the client would report a missing or a second message by a code of its own.
var deliverStream = grpc.StreamDesc{StreamName: "Deliver", ServerStreams: true}

// deliver calls Deliver and notes in seen what the server sent. Its error has a status, or is an
// *answerError.
func deliver(
	ctx context.Context,
	conn *grpc.ClientConn,
	msg *carillonv1.DeliverRequest,
	seen *response,
) (*carillonv1.DeliverResponse, error) {
	body, err := proto.Marshal(msg)
	if err != nil {
		return nil, &answerError{err.Error()} // its texts are UTF-8, so this does not happen
	}
	ctx, cancel := context.WithCancel(context.WithValue(ctx, responseKey{}, seen))
	defer cancel() // ends a stream that has more messages
	stream, err := conn.NewStream(
		ctx,
		&deliverStream,
		carillonv1.Callback_Deliver_FullMethodName,
		grpc.ForceCodecV2(frames{}),
	)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(&body); err != nil && !errors.Is(err, io.EOF) {
		return nil, err // after io.EOF, RecvMsg says why
	}
	var first, second []byte
	switch err := stream.RecvMsg(&first); {
	case errors.Is(err, io.EOF):
		return nil, &answerError{"answered OK without a message"}
	case err != nil:
		return nil, err
	}
	switch err := stream.RecvMsg(&second); {
	case err == nil:
		return nil, &answerError{"answered with more than one message"}
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	resp := new(carillonv1.DeliverResponse)
	if proto.Unmarshal(first, resp) != nil && !decodeLeniently(first, resp) {
		return nil, &answerError{"answered OK with a message that is no DeliverResponse"}
	}
	return resp, nil
}

// decodeLeniently fills in an answer whose text may not be valid UTF-8, which languages with other
// strings send, and which decides nothing. It returns false if anything else is wrong.
func decodeLeniently(b []byte, resp *carillonv1.DeliverResponse) bool {
	resp.Reset()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false
		}
		switch {
		case kind == protowire.VarintType && number == 1:
			v, _ := protowire.ConsumeVarint(b)
			resp.Accepted = protowire.DecodeBool(v)
		case kind == protowire.VarintType && number == 2:
			v, _ := protowire.ConsumeVarint(b)
			resp.CompleteWithinMs = int64(v) //nolint:gosec // as the format says
		case kind == protowire.BytesType && number == 3:
			v, _ := protowire.ConsumeBytes(b)
			resp.Message = string(v)
		}
		b = b[n:]
	}
	return true
}

// answerError is about an answer that violates the protocol.
type answerError struct{ why string }

func (e *answerError) Error() string { return e.why }

// frames is a codec that leaves messages as they are. With another one, the client would report a
// message that cannot be decoded by a code of its own.
type frames struct{}

var _ encoding.CodecV2 = frames{}

// Marshal implements encoding.CodecV2.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	//nolint:forcetypeassert // deliver passes no other type
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize() //nolint:forcetypeassert // deliver passes no other type
	return nil
}

// Name implements encoding.CodecV2. The empty name sends "application/grpc" as the content type.
func (frames) Name() string { return "" }

// answeredError classifies an answer other than OK. Like HTTP statuses, all codes are retried
// unless the timer's policy lists them.
func answeredError(err error) Result {
	s := status.Convert(err)
	r := Result{
		Class:      Retry,
		StatusCode: int32(s.Code()), //nolint:gosec // seventeen codes, and what a receiver sends
		Failure:    timer.FailureStatus,
		Error:      oneLine("answered " + s.Code().String() + ": " + s.Message()),
	}
	for _, d := range s.Details() {
		if again, ok := d.(*errdetails.RetryInfo); ok {
			r.RetryAfter = min(max(again.GetRetryDelay().AsDuration(), 0), timer.MaxRetryAfter)
		}
	}
	return r
}

// unanswered classifies an attempt without a code of the server. Its result has no code, since the
// policy of retries is about answers.
func unanswered(
	ctx, callCtx context.Context,
	q *Request,
	err error,
	ch *channel,
	seen *response,
	timeout time.Duration,
) Result {
	if e, ok := errors.AsType[*answerError](err); ok {
		return Result{Class: Retry, Failure: timer.FailureProtocol, Error: e.why}
	}
	if ctx.Err() != nil {
		return failedResult(ctx, callCtx, ctx.Err(), timeout)
	}
	s := status.Convert(err)
	if isLargeHeader(s.Message()) {
		return unsentResult(errors.New(s.Message()))
	}
	r := Result{Class: Retry, Failure: failureOfText(s.Message())}
	switch s.Code() { //nolint:exhaustive // the others have no special meaning here
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if dialErr := ch.lastDialErr(); dialErr != nil && !seen.headers.Load() {
			return failedResult(ctx, callCtx, dialErr, timeout)
		}
		if s.Code() == codes.DeadlineExceeded {
			return timeoutResult(timeout)
		}
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
		// Made from the HTTP statuses 401, 403 and 404, for example of a gateway. They say nothing
		// about other calls of the endpoint.
		if r.Failure == timer.FailureProtocol {
			r.Failure = timer.FailureStatus
		}
	case codes.ResourceExhausted:
		if r.Failure == timer.FailureTooLarge {
			return tooLarge(q)
		}
	}
	what := "no answer: "
	if r.Failure == timer.FailureProtocol || r.Failure == timer.FailureStatus {
		what = "no answer of gRPC: "
	}
	r.Error = oneLine(what + s.Message())
	return r
}

// tooLarge is the result of an answer whose message exceeds maxAnswerBytes, where reading ended
// before the code. As with HTTP, the size of an answer decides nothing. Servers send a message only
// with OK, so this counts as OK. A higher limit was rejected, because the receivers of all calls at
// once could fill the memory. Whether the receiver completes the fire later is part of the message,
// so with such targets the answer is unknown.
func tooLarge(q *Request) Result {
	if q.Target.Async <= 0 || q.Token == "" {
		return Result{}
	}
	return Result{
		Class:   Retry,
		Failure: timer.FailureTooLarge,
		Error: fmt.Sprintf(
			"answered with a message of more than %d bytes, which may or may not accept the fire",
			maxAnswerBytes,
		),
	}
}

// failureOfText returns why there was no answer. gRPC reports it only in its text, in which a server
// has no part.
func failureOfText(text string) timer.Failure {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("handshake failed", "tls: ", "x509: "):
		return timer.FailureTLS
	case has("larger than max", "header list size"):
		return timer.FailureTooLarge
	case has("EOF", "connection reset", "broken pipe", "use of closed", "transport is closing", "draining", "closing transport", "oaway", "oAway", "keepalive", "RST_STREAM"):
		return timer.FailureReset
	default:
		return timer.FailureProtocol
	}
}
