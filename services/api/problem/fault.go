package problem

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/timer"
)

// RetryAfter is the Retry-After header of answers sent while a server is unavailable, in seconds.
const RetryAfter = "1"

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

// FaultOf converts an error to the one that the caller sees. invalid is the HTTP status of invalid
// input. The cause of an internal error goes only to the log, because it may name servers and rows.
func (r *Reporter) FaultOf(err error, invalid int) Fault {
	if scope, ok := errors.AsType[*ScopeError](err); ok {
		return Fault{Status: http.StatusForbidden, Msg: scope.Error()}
	}
	var e *timer.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return Fault{Status: http.StatusServiceUnavailable, Msg: "no answer in time"}
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
	case timer.CodeInternal:
		fallthrough
	default:
		r.log.Error().Err(err).Msg("request failed")
		f = Fault{Status: http.StatusInternalServerError, Msg: "internal error"}
	}
	return f
}
