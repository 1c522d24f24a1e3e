package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/carillon-timer/carillon/libs/timer"
)

// retryAfter is the Retry-After header of answers sent while a server is unavailable, in seconds.
const retryAfter = "1"

// Errors of the HTTP layer.
var (
	errNoKey = errors.New("a known key is required: Authorization: Bearer <key>")
)

// fault is an error as callers see it.
type fault struct {
	status int
	field  string // dotted, as v2 names it; empty where no field is at fault
	msg    string
}

// faultOf converts an error to the one that the caller sees. invalid is the HTTP status of invalid
// input. The cause of an internal error goes only to the log, because it may name servers and rows.
func (s *Service) faultOf(err error, invalid int) fault {
	if scope, ok := errors.AsType[*scopeError](err); ok {
		return fault{status: http.StatusForbidden, msg: scope.Error()}
	}
	var e *timer.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return fault{status: http.StatusServiceUnavailable, msg: "no answer in time"}
		}
		s.opts.Logger.Error().Err(err).Msg("request failed")
		return fault{status: http.StatusInternalServerError, msg: "internal error"}
	}
	f := fault{field: e.Field, msg: e.Msg}
	switch e.Code {
	case timer.CodeInvalid:
		f.status = invalid
	case timer.CodeNotFound:
		f.status = http.StatusNotFound
	case timer.CodeConflict:
		f.status = http.StatusConflict
	case timer.CodeUnavailable:
		s.unavailable.Warn().Err(err).Msg("server unavailable")
		f.status, f.field = http.StatusServiceUnavailable, ""
	case timer.CodeInternal:
		fallthrough
	default:
		s.opts.Logger.Error().Err(err).Msg("request failed")
		f = fault{status: http.StatusInternalServerError, msg: "internal error"}
	}
	return f
}
