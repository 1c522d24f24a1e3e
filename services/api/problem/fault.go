package problem

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/timer"
)

// RetryAfter is the Retry-After header of answers sent while a server is unavailable, in seconds.
const RetryAfter = "1"

// StatusClientClosed is the status of a request whose client closed the connection before it had an
// answer. Nobody receives it: it is for metrics and spans, where a 5xx would be an error of this
// server. The number is that of nginx.
const StatusClientClosed = 499

// Fault is an error as callers see it.
type Fault struct {
	Status int
	Field  string // dotted, as v2 names it; empty where no field is at fault
	Msg    string
}

// Reporter converts errors, and logs those that callers are not told.
type Reporter struct {
	log         zerolog.Logger
	unavailable zerolog.Logger // rate-limited, for unavailable servers
}

// NewReporter returns a reporter that logs to log.
func NewReporter(log zerolog.Logger) *Reporter {
	return &Reporter{log: log, unavailable: RateLimited(log)}
}

// RateLimited returns a logger that writes at most 10 lines a second, for events that any request
// can cause.
func RateLimited(log zerolog.Logger) zerolog.Logger {
	const perSecond = 10
	return log.Sample(&zerolog.BurstSampler{Burst: perSecond, Period: time.Second})
}

// FaultOf converts an error of a request to the one that the caller sees. ctx is the request's.
// invalid is the HTTP status of invalid input. The cause of an internal error goes only to the log,
// because it may name servers and rows.
func (r *Reporter) FaultOf(ctx context.Context, err error, invalid int) Fault {
	if clientClosed(ctx) && isContextError(err) {
		r.log.Debug().Err(err).Msg("client closed the connection")
		return Fault{Status: StatusClientClosed, Msg: "the client closed the connection"}
	}
	if scope, ok := errors.AsType[*ScopeError](err); ok {
		return Fault{Status: http.StatusForbidden, Msg: scope.Error()}
	}
	var e *timer.Error
	if !errors.As(err, &e) {
		if isContextError(err) {
			return Fault{
				Status: http.StatusServiceUnavailable, Msg: "no answer in time" + advice(ctx),
			}
		}
		r.log.Error().Err(err).Msg("request failed")
		return Fault{Status: http.StatusInternalServerError, Msg: "internal error"}
	}
	f := Fault{Field: e.Field, Msg: e.Msg}
	switch e.Code {
	case timer.CodeInvalid:
		f.Status = invalid
	case timer.CodeNotFound:
		f.Status = http.StatusNotFound
	case timer.CodeConflict:
		f.Status = http.StatusConflict
	case timer.CodeUnavailable:
		r.unavailable.Warn().Err(err).Msg("server unavailable")
		f.Status, f.Field = http.StatusServiceUnavailable, ""
		f.Msg += advice(ctx)
	case timer.CodeInternal:
		fallthrough
	default:
		r.log.Error().Err(err).Msg("request failed")
		f = Fault{Status: http.StatusInternalServerError, Msg: "internal error"}
	}
	return f
}

// keyedKey is the context key of whether the request's operation takes an Idempotency-Key.
type keyedKey struct{}

// WithKey returns the context of a request whose operation takes an Idempotency-Key.
func WithKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, keyedKey{}, true)
}

// advice says what a caller does after a 503, of which the request may have been carried out.
func advice(ctx context.Context) string {
	if ctx.Value(keyedKey{}) != nil {
		return "; repeat the request, with the same Idempotency-Key if it had one"
	}
	return "; repeat the request"
}

// clientClosed returns whether a request's client has closed the connection. At a stop, the server
// closes it where the grace period was too short.
func clientClosed(ctx context.Context) bool {
	select {
	case <-process.Stopping(ctx):
		return false
	default:
		return errors.Is(ctx.Err(), context.Canceled)
	}
}

// isContextError returns whether an error is that a context ended. Both kinds occur where a client
// is gone, because a batch drops the items of such clients.
func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
