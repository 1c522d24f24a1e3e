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

// failedResult classifies an attempt without an answer. ctx is the caller's; if it ended, the
// result says nothing about the receiver. callCtx is the attempt's, which ends after timeout. The
// error alone does not tell whether that time is over: connecting has a shorter limit of its own.
func failedResult(ctx, callCtx context.Context, err error, timeout time.Duration) Result {
	if r, ok := errors.AsType[*egress.RefusedError](err); ok {
		return Result{Class: Reject, Failure: timer.FailureRefused, Error: oneLine(r.Error())}
	}
	switch {
	case ctx.Err() != nil:
		return Result{Class: Retry, Failure: timer.FailureCanceled, Error: "the call was cancelled"}
	case isTimeout(err) && timeOver(callCtx):
		return timeoutResult(timeout)
	}
	if isLargeHeader(err.Error()) {
		return unsentResult(err)
	}
	f := failureOf(err)
	r := Result{Class: Retry, Failure: f, Error: oneLine(err.Error())}
	if f == timer.FailureInvalid {
		r.Class = Reject
	}
	if isTimeout(err) && f != timer.FailureDNS && f != timer.FailureReset {
		r.Error = oneLine("no connection in time: " + err.Error())
	}
	return r
}

// unsentResult is the result of a call that was not made. It is retried, because what it lacked may
// be there later: a key to sign it, or a server that takes larger headers.
func unsentResult(why error) Result {
	return Result{
		Class:   Retry,
		Failure: timer.FailureInvalid,
		Error:   oneLine("not sent: " + why.Error()),
	}
}

// isLargeHeader returns whether a request was not sent because its header is larger than the server
// said that it takes. The texts are those of net/http and of gRPC.
func isLargeHeader(text string) bool {
	return strings.Contains(text, "request header list larger than peer's advertised limit") ||
		strings.Contains(text, "header list size to send violates the maximum size")
}

func timeoutResult(timeout time.Duration) Result {
	return Result{
		Class:   Retry,
		Failure: timer.FailureTimeout,
		Error:   fmt.Sprintf("no answer within %s", timeout),
	}
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// timeOver returns whether a context has ended. It reads the clock, too, because others keep the
// same deadline, and their timers may run before the context's.
func timeOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// failureOf returns the kind of failure of an error. It examines the text only where net/http
// provides nothing better.
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
	case strings.HasPrefix(text, "net/http: invalid header"),
		strings.HasPrefix(text, "net/http: invalid trailer"),
		strings.HasPrefix(text, "net/http: invalid method"):
		return timer.FailureInvalid // of the request; texts about an answer may contain these
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return timer.FailureConnect
	}
	switch {
	case errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.ETIMEDOUT), // the host is gone
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
	if isTimeout(err) {
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

// ConcernsEndpoint returns whether a result says anything about the endpoint. A canceled call, or
// one that was never sent, does not. An unknown class says nothing.
func ConcernsEndpoint(r *Result) bool {
	switch r.Failure {
	case timer.FailureCanceled,
		timer.FailureAuth,
		timer.FailureRefused,
		timer.FailureInvalid,
		timer.FailureCircuit:
		return false
	case timer.FailureNone,
		timer.FailureDNS,
		timer.FailureConnect,
		timer.FailureTLS,
		timer.FailureTimeout,
		timer.FailureStatus,
		timer.FailureRule,
		timer.FailureReset,
		timer.FailureTooLarge,
		timer.FailureProtocol,
		timer.FailureRedirect,
		timer.FailureAsync:
		return true
	}
	return false
}

// EndpointFailed returns whether a result indicates a failing endpoint rather than a bad request.
// Circuit breakers count these results.
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
		switch r.StatusCode { // codes of gRPC are below 100, HTTP statuses are not
		case http.StatusBadGateway,
			http.StatusServiceUnavailable,
			http.StatusGatewayTimeout,
			int32(codes.Unavailable),
			int32(codes.DeadlineExceeded):
			return true
		}
		return false
	case timer.FailureNone,
		timer.FailureRule,
		timer.FailureRefused,
		timer.FailureRedirect,
		timer.FailureAuth,
		timer.FailureInvalid,
		timer.FailureCanceled,
		timer.FailureAsync,
		timer.FailureCircuit:
		return false
	}
	return false
}
