package route

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/requests"
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
	Also         []int        // other statuses of a success, with the same answer
	Errors       []int        // statuses of errors that only some operations have
	Open         bool         // needs no key
	Deployment   bool         // is about the deployment: keys of an app do not suffice
	Reads        bool         // writes nothing, although its method is not GET
	// Stream describes an answer of server-sent events by their data. Its output is a
	// huma.StreamResponse.
	Stream any
}

// StreamType is the content type of server-sent events.
const StreamType = "text/event-stream"

// streamResponse describes an endless answer, whose events have data of a type.
func streamResponse(api huma.API, data any) *huma.Response {
	t := reflect.TypeOf(data)
	of := api.OpenAPI().Components.Schemas.Schema(t, true, "")
	return &huma.Response{
		Description: "Server-sent events. The data of each is JSON of " + of.Ref + ".",
		Content: map[string]*huma.MediaType{
			StreamType: {Schema: &huma.Schema{Type: huma.TypeString}},
		},
	}
}

// dryRunner is an input with the parameter dry_run, see param.DryRunParam.
type dryRunner interface{ IsDryRun() bool }

// takesKey returns whether an input has the header Idempotency-Key.
func takesKey(in reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(in), func(f reflect.StructField) bool {
		return f.Tag.Get("header") == keyHeader
	})
}

// appField returns where an input names its app: in the path, in the query or in the body.
func appField(in reflect.Type) string {
	for _, f := range reflect.VisibleFields(in) {
		for _, part := range []string{"path", "query"} {
			if f.Tag.Get(part) == "app" {
				return part + ".app"
			}
		}
	}
	return "app"
}

// locateApp returns an error about an app that does not exist, or is being deleted, with the field
// that names the app. Others it returns as they are.
func locateApp(err error, field string) error {
	e, ok := errors.AsType[*timer.Error](err)
	if !ok || e.Field != "app" || e.Code != timer.CodeNotFound && e.Code != timer.CodeConflict {
		return err
	}
	located := *e
	located.Field = field
	return &located
}

// Add registers an operation. It checks the scope of the caller's key first. It converts every
// error of a handler, because huma would show an unknown one to the caller. Each operation that
// writes has dry_run, which marks the context: then no call of the store writes.
func Add[I, O any](r *Router, o Operation, h func(context.Context, *I) (*O, error)) {
	writes := o.Method != http.MethodGet && !o.Reads
	if _, dry := any(new(I)).(dryRunner); dry != writes {
		panic(o.ID + ": each operation that writes has dry_run, and no other has it")
	}
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
		api, op.MaxBodyBytes, op.BodyReadTimeout = r.Open, requests.OpenBodyBytes, -1
	} else {
		op.Description = "Needs a key of scope " + string(o.Scope) + "."
		if o.Deployment {
			op.Description = "Needs a key of the deployment, of scope " + string(o.Scope) + "."
		}
		op.Security = []map[string][]string{{KeyScheme: {}}}
	}
	op.Responses = make(map[string]*huma.Response) // huma adds to it
	if o.Stream != nil {
		op.Responses[strconv.Itoa(o.Status)] = streamResponse(api, o.Stream)
	}
	op.Middlewares = slices.Concat(
		refuseMalformed(api),
		refuseEmpty(api, reflect.TypeFor[I]()),
		refuseIgnored(api, reflect.TypeFor[I](), writes),
	)
	keyed := takesKey(reflect.TypeFor[I]())
	app := appField(reflect.TypeFor[I]())
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		var out *O
		var err error
		if keyed {
			ctx = problem.WithKey(ctx)
		}
		if !o.Open {
			ctx, err = r.Auth.RequireScope(ctx, o.Scope)
		}
		if scope, lacks := errors.AsType[*problem.ScopeError](err); lacks {
			scope.Deployment = o.Deployment
		}
		if d, ok := any(in).(dryRunner); ok && d.IsDryRun() {
			ctx = store.WithDryRun(ctx)
		}
		if err == nil {
			out, err = h(ctx, in)
		}
		switch err.(type) { //nolint:errorlint // wrapped ones are not for callers
		case nil, huma.StatusError, huma.HeadersError:
		default:
			err = r.Problems.Of(ctx, locateApp(err, app))
		}
		return out, err
	})
	for _, status := range o.Also {
		also := *op.Responses[strconv.Itoa(o.Status)]
		also.Description = http.StatusText(status)
		op.Responses[strconv.Itoa(status)] = &also
	}
}
