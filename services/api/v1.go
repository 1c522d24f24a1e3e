package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// v1 is plain handlers, kept to the letter of what existing callers use: every answer is {"code", "msg", …}, code is 0 or the
// HTTP status, unknown fields are ignored.

// v1Answer is every answer of v1.
type v1Answer struct {
	Code int      `json:"code"`
	Msg  string   `json:"msg"`
	ID   timer.ID `json:"id,omitempty"`
	Data *v1Def   `json:"data,omitempty"`
}

// v1Def is a definition: the body of a create, and what GET shows.
type v1Def struct {
	ID     v1ID         `json:"id,omitempty"`
	App    string       `json:"app"`
	Name   string       `json:"name"`
	Status timer.Status `json:"status,omitempty"`
	Cron   string       `json:"cron"`
	Notify v1Notify     `json:"notifyHTTPParam"`
}

type v1Notify struct {
	URL    string              `json:"url"`
	Method string              `json:"method"`
	Header map[string][]string `json:"header,omitempty"`
	Body   string              `json:"body"`
}

// v1Ref names a timer.
type v1Ref struct {
	ID  v1ID   `json:"id"`
	App string `json:"app"`
}

// v1ID is written as a number, and read as a number or a decimal string.
type v1ID timer.ID

// UnmarshalJSON reads both forms. What is no id at all becomes 0, which check refuses with the field's name.
func (id *v1ID) UnmarshalJSON(b []byte) error {
	text := string(b)
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err //nolint:wrapcheck // encoding/json is the caller
		}
	}
	parsed, err := timer.ParseID(text)
	if err != nil {
		parsed = 0
	}
	*id = v1ID(parsed)
	return nil
}

func (s *Service) routesV1(r chi.Router) {
	r.Post(v1Prefix+"/def", s.v1(s.v1Create))
	r.Get(v1Prefix+"/def", s.v1(s.v1Get))
	r.Delete(v1Prefix+"/def", s.v1(s.v1SetStatus(timer.StatusDeleted)))
	r.Post(v1Prefix+"/enable", s.v1(s.v1SetStatus(timer.StatusActive)))
	r.Post(v1Prefix+"/unable", s.v1(s.v1SetStatus(timer.StatusInactive)))
}

// v1 writes what a handler returns.
func (s *Service) v1(h func(*http.Request) (v1Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := v1Answer{}, s.needs(r.Context(), scopeOf("", r.Method))
		if err == nil {
			a, err = h(r)
		}
		if err == nil {
			a.Msg = "ok"
			writeV1(w, http.StatusOK, a)
			return
		}
		f := fault{status: http.StatusRequestEntityTooLarge, msg: fmt.Sprintf("the body is longer than %d bytes", maxRequestBytes)}
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); !tooLong {
			f = s.faultOf(err, http.StatusBadRequest)
		}
		if f.field != "" {
			f.msg = v1Field(f.field) + " " + f.msg
		}
		writeV1(w, f.status, v1Answer{Code: f.status, Msg: f.msg})
	}
}

func writeV1(w http.ResponseWriter, status int, a v1Answer) {
	setRetryAfter(w.Header(), status)
	writeJSON(w, status, "application/json; charset=utf-8", a)
}

func (s *Service) v1Create(r *http.Request) (v1Answer, error) {
	var b v1Def
	if err := readV1(r, &b); err != nil {
		return v1Answer{}, err
	}
	if err := s.mayUse(r.Context(), b.App); err != nil {
		return v1Answer{}, err
	}
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{b.Cron}},
		Target: timer.Target{
			Kind: timer.KindHTTP, URL: b.Notify.URL, Method: b.Notify.Method, Headers: b.Notify.Header, Body: b.Notify.Body,
		},
		Retry: timer.DefaultRetry(),
	}
	s.defaultZone(&d.Schedule)
	if d.Target.Method == "" {
		d.Target.Method = http.MethodPost
	}
	bad := append(checkNames(b.App, b.Name), collect(schedule.Check(&d.Schedule), callback.CheckTarget(&d.Target))...)
	if len(bad) > 0 {
		return v1Answer{}, bad[0]
	}
	plain(&d)
	c, err := s.createOne(r.Context(), store.NewTimer{App: b.App, Name: b.Name, Definition: d})
	return v1Answer{ID: c.Timer.ID}, err
}

func (s *Service) v1SetStatus(to timer.Status) func(*http.Request) (v1Answer, error) {
	return func(r *http.Request) (v1Answer, error) {
		var ref v1Ref
		if err := readV1(r, &ref); err != nil {
			return v1Answer{}, err
		}
		if err := s.checkRef(r, ref); err != nil {
			return v1Answer{}, err
		}
		if err := checkOwn("app", ref.App); err != nil {
			return v1Answer{}, err
		}
		_, err := s.setStatusOne(r.Context(), store.StatusChange{App: ref.App, ID: timer.ID(ref.ID), Status: to})
		return v1Answer{}, err
	}
}

func (s *Service) v1Get(r *http.Request) (v1Answer, error) {
	q := r.URL.Query()
	ref := v1Ref{App: q.Get("app")}
	if id, err := timer.ParseID(q.Get("id")); err == nil {
		ref.ID = v1ID(id)
	}
	if err := s.checkRef(r, ref); err != nil {
		return v1Answer{}, err
	}
	t, err := s.opts.Store.Timer(r.Context(), ref.App, timer.ID(ref.ID))
	if err != nil {
		return v1Answer{}, err //nolint:wrapcheck // the store says what it was doing
	}
	target := t.Definition.Target
	return v1Answer{Data: &v1Def{
		ID: v1ID(t.ID), App: t.App, Name: t.Name, Status: t.Status,
		Cron:   strings.Join(t.Definition.Schedule.Specs, "; "), // v1 makes one; a timer made by v2 may have none or several
		Notify: v1Notify{URL: target.URL, Method: target.Method, Header: target.Headers, Body: target.Body},
	}}, nil
}

func (s *Service) checkRef(r *http.Request, ref v1Ref) error {
	if ref.ID == 0 {
		return timer.Invalid("id", "is required: a whole number from 1 to 2^53-1")
	}
	if err := checkText("app", ref.App, timer.MaxAppLen); err != nil {
		return err
	}
	return s.mayUse(r.Context(), ref.App)
}

// readV1 reads a JSON object and ignores fields that it does not know.
func readV1(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("reading the body: %w", bodyError(err))
	}
	err = unmarshalStrict(body, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return &timer.Error{Code: timer.CodeInvalid, Field: v1Path + wrong.Field, Msg: "is a JSON " + wrong.Value + ", which it cannot be"}
	default:
		return timer.Invalid("", "the body is not the JSON object that is wanted: "+err.Error())
	}
}

// bodyError tells a caller who is too slow from a body that is too long.
func bodyError(err error) error {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return err
	}
	return timer.Invalid("", "the body could not be read to its end")
}

// v1Path marks a field that is already named as v1 names it.
const v1Path = "v1:"

// v1Field names a field of a definition as v1 does.
func v1Field(field string) string {
	if named, ok := strings.CutPrefix(field, v1Path); ok {
		return named
	}
	for _, m := range [][2]string{
		{"schedule.specs", "cron"}, {"schedule", "cron"}, {"target.headers", "notifyHTTPParam.header"}, {"target.", "notifyHTTPParam."},
	} {
		if rest, ok := strings.CutPrefix(field, m[0]); ok {
			return m[1] + strings.TrimPrefix(rest, "[0]")
		}
	}
	return field
}
