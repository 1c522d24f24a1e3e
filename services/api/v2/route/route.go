// Package route registers the operations of v2.
package route

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/services/api/admission"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
)

// KeyScheme names the security scheme of API keys.
const KeyScheme = "key"

// Router is where resources add their operations.
type Router struct {
	API         huma.API // for requests with a key
	Open        huma.API // for requests without a key
	Auth        *auth.Checker
	Problems    *problem.Reporter
	BodyTimeout time.Duration
}

// Operation describes one operation.
type Operation struct {
	Method, Path string
	ID           string // unique; clients name their functions by it
	Summary      string
	Scope        apikey.Scope // of the key; default: by method, see auth.ScopeOf
	Status       int          // of a success; default 200
	Errors       []int        // statuses of errors that only some operations have
	Open         bool         // needs no key
}

// Add registers an operation. It checks the scope of the caller's key first. It converts every
// error of a handler, because huma would show an unknown one to the caller.
func Add[I, O any](r *Router, o Operation, h func(context.Context, *I) (*O, error)) {
	options.Default(&o.Scope, auth.ScopeOf(o.Method))
	options.Default(&o.Status, http.StatusOK)
	op := huma.Operation{
		OperationID:     o.ID,
		Method:          o.Method,
		Path:            input.V2Prefix + o.Path,
		Summary:         o.Summary,
		DefaultStatus:   o.Status,
		MaxBodyBytes:    input.MaxRequestBytes,
		BodyReadTimeout: r.BodyTimeout,
		Errors: append([]int{
			http.StatusUnauthorized,
			http.StatusForbidden,
			http.StatusNotFound,
			http.StatusConflict,
			http.StatusServiceUnavailable,
		}, o.Errors...),
	}
	api := r.API
	if o.Open {
		// BodyLimiter.ReadFirst has read the body.
		api, op.MaxBodyBytes, op.BodyReadTimeout = r.Open, admission.OpenBodyBytes, -1
	} else {
		op.Description = "Needs a key of scope " + string(o.Scope) + "."
		op.Security = []map[string][]string{{KeyScheme: {}}}
	}
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		var out *O
		var err error
		if !o.Open {
			err = r.Auth.RequireScope(ctx, o.Scope)
		}
		if err == nil {
			out, err = h(ctx, in)
		}
		switch err.(type) { //nolint:errorlint // wrapped ones are not for callers
		case nil, huma.StatusError, huma.HeadersError:
		default:
			err = r.Problems.Of(err)
		}
		return out, err
	})
}
