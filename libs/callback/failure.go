package callback

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

// failedResult says what an attempt without answer means. ctx is the caller's: that it ended says nothing
// of the receiver.
func failedResult(ctx context.Context, err error, timeout time.Duration) Result {
	if _, ok := errors.AsType[*redirectError](err); ok {
		return Result{Class: Retry, Failure: timer.FailureRedirect, Error: oneLine(err.Error())}
	}
	if r, ok := errors.AsType[*egress.RefusedError](err); ok {
		return Result{Class: Reject, Failure: timer.FailureRefused, Error: oneLine(r.Error())}
	}
	switch {
	case ctx.Err() != nil:
		return Result{Class: Retry, Failure: timer.FailureCanceled, Error: "the call was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return Result{
			Class:   Retry,
			Failure: timer.FailureTimeout,
			Error:   fmt.Sprintf("no answer within %s", timeout),
		}
	}
	f := failureOf(err)
	r := Result{Class: Retry, Failure: f, Error: oneLine(err.Error())}
	if f == timer.FailureInvalid {
		r.Class = Reject
	}
	if netErr, ok := errors.AsType[net.Error](
		err,
	); ok && netErr.Timeout() &&
		f != timer.FailureDNS {
		r.Error = oneLine("no connection in time: " + err.Error())
	}
	return r
}

// failureOf tells what kind of trouble an error is. The text decides only where net/http gives
// nothing else.
func failureOf(err error) timer.Failure {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return timer.FailureDNS
	}
	if isTLS(err) {
		return timer.FailureTLS
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "response headers exceeded"),
		strings.Contains(text, "header list larger"),
		strings.Contains(text, "too many 1xx"):
		return timer.FailureTooLarge
	case strings.Contains(text, "net/http: invalid"),
		strings.Contains(text, "invalid header field"):
		return timer.FailureInvalid
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return timer.FailureConnect
	}
	switch {
	case errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		strings.Contains(
			text,
			"server closed",
		),
		strings.Contains(text, "stream error"),
		strings.Contains(text, "GOAWAY"),
		strings.Contains(text, "connection lost"),
		strings.Contains(text, "use of closed"):
		return timer.FailureReset
	}
	if netErr, ok := errors.AsType[net.Error](err); ok && netErr.Timeout() {
		return timer.FailureTimeout
	}
	return timer.FailureProtocol
}

func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "TLS handshake") ||
		strings.Contains(text, "x509: ") ||
		strings.Contains(text, "server gave HTTP response to HTTPS client")
}

// ConcernsEndpoint tells whether a result says anything of the endpoint. What was given up, or never got as
// far, says neither that it is well nor that it is not.
func ConcernsEndpoint(r *Result) bool {
	switch r.Failure {
	case timer.FailureCanceled,
		timer.FailureAuth,
		timer.FailureRefused,
		timer.FailureInvalid,
		timer.FailureCircuit:
		return false
	default:
		return true
	}
}

// EndpointFailed tells whether a result speaks against the endpoint rather than the one request: what a
// circuit breaker counts.
func EndpointFailed(r *Result) bool {
	switch r.Failure {
	case timer.FailureDNS,
		timer.FailureConnect,
		timer.FailureTLS,
		timer.FailureTimeout,
		timer.FailureReset,
		timer.FailureTooLarge,
		timer.FailureProtocol:
		return true
	case timer.FailureStatus:
		switch r.StatusCode { // gRPC's codes are no HTTP statuses, which begin at 100
		case http.StatusBadGateway,
			http.StatusServiceUnavailable,
			http.StatusGatewayTimeout,
			int32(codes.Unavailable),
			int32(codes.DeadlineExceeded):
			return true
		}
		return false
	default:
		return false
	}
}
