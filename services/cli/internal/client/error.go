package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Error is an error answer of the API.
type Error struct {
	Status int    // HTTP status
	Title  string // the status as text, such as "404 Not Found"
	Detail string
	Fields []Field // what is wrong in the request
	// External means that the answer has not the form of the API's, so that another server sent it.
	External bool
}

// Elsewhere is what to look at where something else than the API answers.
const Elsewhere = "something other than Carillon's API answers there: check the address of the API " +
	"(--api, CARILLON_API or the context; admin-addr is another), and HTTP_PROXY and HTTPS_PROXY"

// NoPath reports that the API has no such path, whatever the resource. The text is that of its
// notFound, which a test of the API keeps: APIs of other releases have the same.
func (e *Error) NoPath() bool {
	return e.Status == http.StatusNotFound && strings.HasPrefix(e.Detail, "no such path")
}

// Field is what is wrong with one field of a request.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// NewError reads an error answer. One that is not of the API, for example a gateway's, keeps its
// text.
func NewError(resp *http.Response, body []byte) *Error {
	e := &Error{Status: resp.StatusCode, Title: resp.Status}
	var problem struct {
		Detail string  `json:"detail"`
		Errors []Field `json:"errors"`
	}
	if err := json.Unmarshal(body, &problem); err != nil || problem.Detail == "" {
		e.Detail, e.External = string(bytes.TrimSpace(body)), true
		return e
	}
	e.Detail, e.Fields = problem.Detail, problem.Errors
	return e
}

// ErrorOf returns the error of one item of a batch, as the answer to a request of its own would be.
func ErrorOf(problem Object) *Error {
	status := int(problem.Int("status"))
	e := &Error{
		Status: status,
		Title:  strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status)),
		Detail: problem.Text("detail"),
	}
	for _, f := range problem.Objects("errors") {
		e.Fields = append(e.Fields, Field{Location: f.Text("location"), Message: f.Text("message")})
	}
	return e
}

// ItemErrors returns the errors of a refused batch by the indexes of its items, each as the answer to
// a request of its own would be. It returns nil unless all errors are of items.
func ItemErrors(err error) map[int]*Error {
	whole, ok := errors.AsType[*Error](err)
	if !ok || whole.Status != http.StatusUnprocessableEntity {
		return nil
	}
	items := make(map[int]*Error)
	for _, f := range whole.Fields {
		rest, ok := strings.CutPrefix(f.Location, "body.items[")
		index, field, closed := strings.Cut(rest, "]")
		i, err := strconv.Atoi(index)
		if !ok || !closed || err != nil {
			return nil
		}
		field = strings.TrimPrefix(field, ".")
		if items[i] == nil {
			items[i] = &Error{
				Status: whole.Status, Title: whole.Title,
				Detail: strings.TrimPrefix(field+": "+f.Message, ": "),
			}
		}
		items[i].Fields = append(items[i].Fields, Field{"body." + field, f.Message})
	}
	return items
}

// Error returns the answer with a line for each field.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Title)
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, f := range e.Fields {
		if len(e.Fields) == 1 && strings.Contains(e.Detail, f.Message) {
			break // the detail says it
		}
		b.WriteString("\n  " + strings.TrimPrefix(f.Location, "body.") + ": " + f.Message)
	}
	return b.String()
}

// NotFound reports whether the API says that it has no such resource. A 404 of something else, such as
// a gateway without an API behind it, says nothing about resources, nor does one about a path.
func NotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && !e.External && !e.NoPath()
}

// Gone reports whether the API says that what was to be deleted is not there. That there is no such
// app, or none for the key, does not say it.
func Gone(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && NotFound(err) && !e.NoApp()
}

// errRedirects means that the API answered with a redirect that is not followed.
var errRedirects = errors.New("the API redirects")

// unansweredError is of a request that was sent, and whose answer did not come, or only in part.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// Unknown reports whether a request with this error may have been carried out: it was sent, and its
// answer did not come whole, or is that of a server that failed.
func Unknown(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status >= http.StatusInternalServerError
	}
	_, unanswered := errors.AsType[*unansweredError](err)
	return unanswered
}

// Unauthorized reports whether the API does not know the key.
func Unauthorized(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusUnauthorized
}

// NoApp reports whether an error is that there is no such app, or none for the key.
func (e *Error) NoApp() bool {
	return e.Status == http.StatusNotFound && slices.ContainsFunc(e.Fields, func(f Field) bool {
		return slices.Contains([]string{"path.app", "query.app", "body.app"}, f.Location)
	})
}

// MayPass reports whether the same request may succeed later: there was no answer, or one that asks
// to try again.
func MayPass(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Status == http.StatusTooManyRequests || e.Status >= 500
}
