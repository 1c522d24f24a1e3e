// Package v1 serves /api/timer/v1, which stays as existing callers use it.
package v1

import (
	"bytes"
	"context"
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
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/writes"
)

// v1 consists of plain handlers and stays exactly as existing callers use it. Every answer is
// {"code", "msg", …}, where code is 0 or the HTTP status. Unknown fields are ignored.

// answer is the body of every v1 answer.
type answer struct {
	problem.V1

	ID   timer.ID `json:"id,omitempty"`
	Data *v1Def   `json:"data,omitempty"`
}

// v1New is the body of a create. It has no id and no status: callers of other systems send their own
// status, and a timer is created inactive.
type v1New struct {
	App    string   `json:"app"`
	Name   string   `json:"name"`
	Cron   string   `json:"cron"`
	Notify v1Notify `json:"notifyHTTPParam"`
}

// v1Def is the data of a GET.
type v1Def struct {
	ID     v1ID         `json:"id"`
	App    string       `json:"app"`
	Name   string       `json:"name"`
	Status timer.Status `json:"status"`
	Cron   string       `json:"cron"`
	Notify v1Notify     `json:"notifyHTTPParam"`
}

type v1Notify struct {
	URL    string   `json:"url"`
	Method string   `json:"method"`
	Header v1Header `json:"header,omitempty"`
	Body   string   `json:"body"`
}

// UnmarshalJSON begins anew, because of an object that is given twice the last counts. encoding/json
// alone would add its fields to those of the first.
func (n *v1Notify) UnmarshalJSON(b []byte) error {
	type plain v1Notify
	var only plain
	err := json.Unmarshal(b, &only)
	*n = v1Notify(only)
	return err //nolint:wrapcheck // encoding/json is the caller
}

type v1Header map[string][]string

// UnmarshalJSON begins anew, like that of v1Notify.
func (h *v1Header) UnmarshalJSON(b []byte) error {
	var only map[string][]string
	err := json.Unmarshal(b, &only)
	*h = only
	return err //nolint:wrapcheck // encoding/json is the caller
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

// Store is the part of the store that v1 needs.
type Store interface {
	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	TimerByName(ctx context.Context, app, name string) (timer.Timer, error)
}

// API is the operations of v1.
type API struct {
	Store       Store
	Auth        *auth.Checker
	Problems    *problem.Reporter
	Writer      *writes.Writer
	Definitions *definition.Reader
}

// Register adds the routes to r.
func (s *API) Register(r chi.Router) {
	r.Post(input.V1Prefix+"/def", s.v1(s.v1Create))
	r.Get(input.V1Prefix+"/def", s.v1(s.v1Get))
	r.Delete(input.V1Prefix+"/def", s.v1(s.v1SetStatus(timer.StatusDeleted)))
	r.Post(input.V1Prefix+"/enable", s.v1(s.v1SetStatus(timer.StatusActive)))
	r.Post(input.V1Prefix+"/unable", s.v1(s.v1SetStatus(timer.StatusInactive)))
}

// v1 encodes the result of a handler.
func (s *API) v1(h func(*http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var a answer
		ctx, err := s.Auth.RequireScope(r.Context(), auth.ScopeOf(r.Method))
		if err == nil {
			err = checkNoDryRun(r)
		}
		if err == nil {
			a, err = h(r.WithContext(ctx))
		}
		if err == nil {
			a.Msg = "ok"
			write(w, http.StatusOK, a)
			return
		}
		var f problem.Fault
		if unread, ok := errors.AsType[*unreadError](err); ok {
			f = problem.BodyFault(unread.err, input.MaxRequestBytes)
		} else {
			f = s.Problems.FaultOf(r.Context(), err, http.StatusBadRequest)
		}
		if f.Field != "" {
			f.Msg = v1Field(f.Field) + ": " + f.Msg
		}
		write(w, f.Status, answer{V1: problem.V1{Code: f.Status, Msg: f.Msg}})
	}
}

// checkNoDryRun refuses a dry run, which v2 has. Ignored, it would write.
func checkNoDryRun(r *http.Request) error {
	if !r.URL.Query().Has("dry_run") {
		return nil
	}
	return timer.Invalid("dry_run", "v1 has no dry runs, so nothing was done: use /api/v2")
}

func write(w http.ResponseWriter, status int, a answer) {
	problem.SetRetryAfter(w.Header(), status)
	problem.WriteJSON(w, status, problem.V1Type, a)
}

func (s *API) v1Create(r *http.Request) (answer, error) {
	var b v1New
	if err := readV1(r, &b); err != nil {
		return answer{}, err
	}
	if err := s.Auth.AuthorizeApp(r.Context(), b.App); err != nil {
		return answer{}, err
	}
	d := timer.Definition{
		Schedule: timer.Schedule{Kind: timer.KindCron, Specs: []string{b.Cron}},
		Target: timer.Target{
			Kind:    timer.KindHTTP,
			URL:     b.Notify.URL,
			Method:  strings.ToUpper(b.Notify.Method),
			Headers: b.Notify.Header,
			Body:    b.Notify.Body,
		},
		Retry: timer.DefaultRetry(),
	}
	s.Definitions.DefaultZone(&d.Schedule)
	if d.Target.Method == "" {
		d.Target.Method = http.MethodPost
	}
	bad := append(
		input.CheckNames(b.App, b.Name),
		input.Collect(
			schedule.Check(&d.Schedule),
			(&callback.Checks{ReservedHeader: s.Definitions.ReservedHeader}).Target(
				"target",
				&d.Target,
			),
		)...)
	if len(bad) > 0 {
		return answer{}, bad[0]
	}
	definition.DropDefaults(&d)
	_, _, has := callback.Userinfo(d.Target.URL)
	if has && s.Definitions.Secrets == nil {
		id, err := s.storedInClear(r.Context(), b.App, b.Name, &d)
		return answer{ID: id}, err
	}
	c, err := s.Writer.Create(
		r.Context(),
		store.NewTimer{App: b.App, Name: b.Name, Definition: s.Definitions.MoveUserinfo(b.App, d)},
	)
	if has && store.IsNameTaken(err) {
		// The same timer may have been stored before its password was treated as a secret. Then the
		// create answers with it.
		had, e := s.Store.TimerByName(r.Context(), b.App, b.Name)
		if e == nil &&
			bytes.Equal(
				input.Hash(s.Definitions.MoveUserinfo(b.App, had.Definition)),
				input.Hash(s.Definitions.MoveUserinfo(b.App, d)),
			) {
			c.Timer, err = had, nil
		}
	}
	return answer{ID: c.Timer.ID}, err
}

// storedInClear returns the timer of a create whose URL has a password, where no keys can encrypt it.
// An older release stored it in the clear, so the same create answers with that timer as before. A new
// one is refused.
func (s *API) storedInClear(
	ctx context.Context,
	app, name string,
	d *timer.Definition,
) (timer.ID, error) {
	had, err := s.Store.TimerByName(ctx, app, name)
	switch {
	case timer.CodeOf(err) == timer.CodeNotFound:
		return 0, timer.Invalid("target.url", definition.NoEncryptionKeys)
	case err != nil:
		return 0, err //nolint:wrapcheck // the store says what it was doing
	case !bytes.Equal(input.Hash(had.Definition), input.Hash(d)):
		return 0, store.NameTaken()
	}
	return had.ID, nil
}

func (s *API) v1SetStatus(to timer.Status) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		var ref v1Ref
		if err := readV1(r, &ref); err != nil {
			return answer{}, err
		}
		if err := s.checkRef(r, ref); err != nil {
			return answer{}, err
		}
		if err := input.CheckNotSystemApp("app", ref.App); err != nil {
			return answer{}, err
		}
		_, err := s.Writer.SetStatus(
			r.Context(),
			store.StatusChange{App: ref.App, ID: timer.ID(ref.ID), Status: to},
		)
		return answer{}, err
	}
}

func (s *API) v1Get(r *http.Request) (answer, error) {
	q := r.URL.Query()
	ref := v1Ref{App: q.Get("app")}
	if id, err := timer.ParseID(q.Get("id")); err == nil {
		ref.ID = v1ID(id)
	}
	if err := s.checkRef(r, ref); err != nil {
		return answer{}, err
	}
	t, err := s.Store.Timer(r.Context(), ref.App, timer.ID(ref.ID))
	if err != nil {
		return answer{}, err //nolint:wrapcheck // the store says what it was doing
	}
	target := *definition.WithoutUserinfo(&t.Definition.Target)
	return answer{Data: &v1Def{
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

func (s *API) checkRef(r *http.Request, ref v1Ref) error {
	if ref.ID == 0 {
		return timer.Invalid(
			"id",
			"expected a whole number from 1 to 2^53-1, found nothing or another value: give the id that the create answered",
		)
	}
	if err := input.CheckText("app", ref.App, timer.MaxAppLen); err != nil {
		return err
	}
	return s.Auth.AuthorizeApp(r.Context(), ref.App)
}

// readV1 decodes a JSON object and ignores unknown fields.
func readV1(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return &unreadError{err}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return timer.Invalid(v1Path+"body", "expected a JSON object, found nothing")
	}
	if err := input.UnmarshalStrict(body, into); err != nil {
		return badV1(err)
	}
	return nil
}

// badV1 describes invalid JSON in terms of JSON, because errors of encoding/json name Go types.
func badV1(err error) error {
	const object = "expected a JSON object, found "
	if errors.Is(err, input.ErrNotUTF8) || errors.Is(err, input.ErrSurrogate) {
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
	words := map[reflect.Kind]string{
		reflect.String: "a text",
		reflect.Slice:  "a list",
		reflect.Map:    "an object",
		reflect.Struct: "an object",
	}
	if word := words[t.Kind()]; word != "" {
		return word
	}
	return "another value"
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
