package api

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// WithKey requires a valid key, of any scope and app, before h. Where no keys are required, it
// admits every caller.
func (s *Service) WithKey(
	h http.Handler,
) http.Handler {
	return requests.IdentifyRequest(s.limitRequest(s.auth.Authenticate(h)))
}

func (s *Service) routes() (http.Handler, error) {
	r := chi.NewRouter()
	r.Use(
		requests.IdentifyRequest, s.measure, s.recoverPanics, s.stall.Reject, s.limitRequest,
		s.auth.RejectCallbacks, answerHead,
	)
	r.NotFound(notFound)
	r.MethodNotAllowed(notAllowed(r))
	var v2 huma.API
	// A request without a key uses no shared resource until its body is read and its token is
	// valid.
	open := r.With(s.bodies.ReadFirst)
	r.Group(func(r chi.Router) {
		r.Use(s.auth.Authenticate, requests.Bounded(s.inFlight))
		s.v1.Register(r)
		v2 = s.v2.Register(r, open)
	})
	// The description is public, and tools fetch it without a key.
	r.Get(
		input.V2Prefix+"/openapi.json",
		s.openAPI("application/json", func() ([]byte, error) { return json.Marshal(v2.OpenAPI()) }),
	)
	r.Get(
		input.V2Prefix+"/openapi.yaml",
		s.openAPI("application/yaml", func() ([]byte, error) { return v2.OpenAPI().YAML() }),
	)
	if !s.opts.Page {
		return r, nil
	}
	return r, s.addPage(r)
}

// addPage serves the page in the browser. It calls the API through r, as every other client does.
func (s *Service) addPage(r chi.Router) error {
	o := ui.Options{
		API:         r,
		Keyless:     s.opts.Auth.Off,
		TrustHeader: s.opts.Auth.TrustHeader,
		SignIn:      s.opts.SignIn,
		Ends:        s.ends,
		Now:         s.opts.Now,
		Retention:   s.opts.Retention,
		Logger:      s.opts.Logger,
	}
	if s.opts.Secrets != nil {
		o.SessionKeys = s.opts.Secrets.Derive("page sessions")
	}
	page, err := ui.New(o)
	if err != nil {
		return err
	}
	r.Handle(ui.Prefix, http.RedirectHandler(ui.Prefix+"/", http.StatusFound))
	r.Handle(ui.Prefix+"/*", page)
	return nil
}

// answerHead has HEAD answered as GET in v2. net/http leaves the body out.
func answerHead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := chi.RouteContext(r.Context())
		if c != nil && r.Method == http.MethodHead &&
			strings.HasPrefix(r.URL.Path, input.V2Prefix) {
			c.RouteMethod = http.MethodGet
		}
		next.ServeHTTP(w, r)
	})
}

// notFound answers 404 with a text by which command lines tell it from a missing resource.
func notFound(w http.ResponseWriter, r *http.Request) {
	problem.Refuse(
		w,
		r,
		problem.Fault{Status: http.StatusNotFound, Msg: "no such path: " + r.URL.Path},
	)
}

// notAllowed answers 405 with the methods that the path has, or 404 for an unknown path. chi calls
// it for every unknown method, whatever the path.
func notAllowed(routes chi.Routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.RawPath
		if path == "" {
			path = r.URL.Path
		}
		var allowed []string
		for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodPut} {
			if routes.Match(chi.NewRouteContext(), m, path) {
				allowed = append(allowed, m)
			}
			if m == http.MethodGet && len(allowed) > 0 && allowed[len(allowed)-1] == m &&
				strings.HasPrefix(path, input.V2Prefix) {
				allowed = append(allowed, http.MethodHead)
			}
		}
		if len(allowed) == 0 {
			notFound(w, r)
			return
		}
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		problem.Refuse(
			w,
			r,
			problem.Fault{
				Status: http.StatusMethodNotAllowed,
				Msg:    r.Method + " is not allowed here: it is " + list,
			},
		)
	}
}

// openAPI serves the description of v2, which does not change while the process runs.
func (s *Service) openAPI(contentType string, render func() ([]byte, error)) http.HandlerFunc {
	render = sync.OnceValues(render) // anyone can ask at any rate
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := render()
		if err != nil {
			f := s.problems.FaultOf(r.Context(), err, http.StatusUnprocessableEntity)
			problem.Refuse(w, r, f)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // the client is gone: nobody to tell
	}
}

// measure counts answers and makes their spans, by the pattern of their route. Paths contain ids, so there would be too
// many series.
func (s *Service) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		r, span := s.opts.Tracer.Begin(r)
		next.ServeHTTP(ww, r)
		pattern := "none"
		if c := chi.RouteContext(r.Context()); c != nil && c.RoutePattern() != "" {
			pattern = c.RoutePattern()
		}
		code := ww.Status()
		if code == 0 {
			code = http.StatusOK
		}
		method := knownMethod(r.Method)
		s.metrics.requests.WithLabelValues(pattern, method, strconv.Itoa(code)).Inc()
		span.End(method, pattern, code)
		if ww.Header().Get("Content-Type") == route.StreamType {
			return // how long a stream lasts is its client's choice
		}
		s.metrics.latency.WithLabelValues(pattern, method).Observe(time.Since(start).Seconds())
	})
}

// knownMethod returns "other" for unknown methods, so that callers cannot create metric series.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet,
		http.MethodHead,
		http.MethodPost,
		http.MethodPut,
		http.MethodPatch,
		http.MethodDelete,
		http.MethodOptions:
		return m
	}
	return "other"
}

// recoverPanics answers 500 where a handler panicked.
func (s *Service) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			//nolint:errorlint // net/http panics with this very value
			if p == http.ErrAbortHandler {
				panic(p)
			}
			line := s.opts.Logger.Error().Any("panic", p).Bytes("stack", debug.Stack()).
				Str(logging.Request, requests.RequestID(r.Context()))
			if id := tracing.TraceID(r.Context()); id != "" {
				line.Str(logging.TraceID, id)
			}
			line.Msg("request panicked")
			problem.Refuse(
				w,
				r,
				problem.Fault{Status: http.StatusInternalServerError, Msg: "internal error"},
			)
		}()
		next.ServeHTTP(w, r)
	})
}

// limitRequest limits the duration of a request and the size of its body. The page takes larger forms
// from some viewers, and limits the others itself.
func (s *Service) limitRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(
			requests.WithConnection(
				requests.WithRemote(r.Context(), r.RemoteAddr), r.Context()),
			s.opts.Timeout,
		)
		defer cancel()
		if r.Body != nil && r.Body != http.NoBody {
			// This holds whether the handler reads the body or not, because the server reads the
			// rest. net/http clears the deadline at the end of the body. A test recorder has no
			// deadline, so the error is ignored.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opts.BodyTimeout))
			limit := int64(input.MaxRequestBytes)
			if s.opts.Page && strings.HasPrefix(r.URL.Path, ui.Prefix+"/") {
				limit = ui.MaxFormBytes
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
