package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// v1 consists of plain handlers and stays exactly as existing callers use it. Every answer is
// {"code", "msg", …}, where code is 0 or the HTTP status. Unknown fields are ignored.

// v1Answer is the body of every v1 answer.
type v1Answer struct {
	Code int      `json:"code"`
	Msg  string   `json:"msg"`
	ID   timer.ID `json:"id,omitempty"`
	Data *v1Def   `json:"data,omitempty"`
}

// v1Def is a definition: the body of a create, and the data of a GET.
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

// v1Ref identifies a timer.
type v1Ref struct {
	ID  v1ID   `json:"id"`
	App string `json:"app"`
}

// v1ID is encoded as a number, and decoded from a number or a decimal string.
type v1ID timer.ID

// UnmarshalJSON decodes both forms. A value that is not an id becomes 0, which the checks refuse
// with the field's name.
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

// v1 encodes the result of a handler.
func (s *Service) v1(h func(*http.Request) (v1Answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := v1Answer{}, s.requireScope(r.Context(), scopeOf("", r.Method))
		if err == nil {
			a, err = h(r)
		}
		if err == nil {
			a.Msg = "ok"
			writeV1(w, http.StatusOK, a)
			return
		}
		var f fault
		if unread, ok := errors.AsType[*unreadError](err); ok {
			f = bodyFault(unread.err, maxRequestBytes)
		} else {
			f = s.faultOf(err, http.StatusBadRequest)
		}
		if f.field != "" {
			f.msg = v1Field(f.field) + ": " + f.msg
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
	if err := s.authorizeApp(r.Context(), b.App); err != nil {
		return v1Answer{}, err
	}
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{b.Cron}},
		Target: timer.Target{
			Kind:    timer.KindHTTP,
			URL:     b.Notify.URL,
			Method:  b.Notify.Method,
			Headers: b.Notify.Header,
			Body:    b.Notify.Body,
		},
		Retry: timer.DefaultRetry(),
	}
	s.defaultZone(&d.Schedule)
	if d.Target.Method == "" {
		d.Target.Method = http.MethodPost
	}
	bad := append(
		checkNames(b.App, b.Name),
		collect(
			schedule.Check(&d.Schedule),
			(&callback.Checks{ReservedHeader: s.opts.ReservedHeader}).Target("target", &d.Target),
		)...)
	if len(bad) > 0 {
		return v1Answer{}, bad[0]
	}
	dropDefaults(&d)
	c, err := s.createOne(
		r.Context(),
		store.NewTimer{App: b.App, Name: b.Name, Definition: s.moveUserinfo(b.App, d)},
	)
	if _, _, has := callback.Userinfo(
		d.Target.URL,
	); has &&
		timer.CodeOf(err) == timer.CodeConflict {
		// The same timer may have been stored before its password was treated as a secret. Then the
		// create answers with it.
		had, e := s.opts.Store.TimerByName(r.Context(), b.App, b.Name)
		if e == nil &&
			bytes.Equal(
				hash(s.moveUserinfo(b.App, had.Definition)),
				hash(s.moveUserinfo(b.App, d)),
			) {
			c.Timer, err = had, nil
		}
	}
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
		if err := checkNotSystemApp("app", ref.App); err != nil {
			return v1Answer{}, err
		}
		_, err := s.setStatusOne(
			r.Context(),
			store.StatusChange{App: ref.App, ID: timer.ID(ref.ID), Status: to},
		)
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
	target := *withoutUserinfo(&t.Definition.Target)
	return v1Answer{Data: &v1Def{
		ID:     v1ID(t.ID),
		App:    t.App,
		Name:   t.Name,
		Status: t.Status,
		// v1 creates one expression; a timer created by v2 may have none or several.
		Cron: strings.Join(t.Definition.Schedule.Specs, "; "),
		Notify: v1Notify{
			URL:    target.URL,
			Method: target.Method,
			Header: target.Headers,
			Body:   target.Body,
		},
	}}, nil
}

func (s *Service) checkRef(r *http.Request, ref v1Ref) error {
	if ref.ID == 0 {
		return timer.Invalid(
			"id",
			"expected a whole number from 1 to 2^53-1, found nothing or another value: give the id that the create answered",
		)
	}
	if err := checkText("app", ref.App, timer.MaxAppLen); err != nil {
		return err
	}
	return s.authorizeApp(r.Context(), ref.App)
}

// readV1 decodes a JSON object and ignores unknown fields.
func readV1(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return &unreadError{err}
	}
	if err := unmarshalStrict(body, into); err != nil {
		return badV1(err)
	}
	return nil
}

// badV1 describes invalid JSON in terms of JSON, because errors of encoding/json name Go types.
func badV1(err error) error {
	const object = "expected a JSON object, found "
	if errors.Is(err, errNotUTF8) || errors.Is(err, errSurrogate) {
		return timer.Invalid(v1Path+"body", err.Error())
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ") // "number 1.5"
		found := jsonWord(kind)
		if wrong.Field == "" {
			return timer.Invalid(v1Path+"body", object+found)
		}
		return timer.Invalid(
			v1Path+wrong.Field,
			"expected "+wantedWord(wrong.Type)+", found "+found,
		)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return timer.Invalid(
			v1Path+"body",
			fmt.Sprintf("%sother text from byte %d on", object, syntax.Offset),
		)
	}
	return timer.Invalid(v1Path+"body", object+"other text")
}

// jsonWord names a kind of JSON value that encoding/json reports.
func jsonWord(kind string) string {
	switch kind {
	case "number":
		return "a number"
	case "object":
		return "an object"
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "bool":
		return "true or false"
	default:
		return "another value"
	}
}

// wantedWord names the kind of JSON value that a field expects.
func wantedWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "another value"
	}
}

// unreadError reports a body that could not be read.
type unreadError struct{ err error }

func (e *unreadError) Error() string { return "reading the body: " + e.err.Error() }

// v1Path prefixes a field that already has its v1 name.
const v1Path = "v1:"

// v1Field returns the v1 name of a field of a definition.
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
