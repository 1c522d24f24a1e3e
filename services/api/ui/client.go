package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/requests"
)

const apiPrefix = "/api/v2"

// client calls the API in this process with the credentials of a viewer. So the API checks
// permissions and input of the page as of every other caller.
type client struct {
	api    http.Handler
	viewer *http.Request
	header http.Header  // credentials
	person *auth.Person // who signed in by an identity provider; nil: the credentials count
}

// apiError is a response of the API with a status other than 2xx.
type apiError struct {
	Status int
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors"`
}

type fieldError struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("the API answered %d: %s", e.Status, e.Detail)
}

// More returns the errors besides the one that the detail says already.
func (e *apiError) More() (more []fieldError) {
	for _, x := range e.Errors {
		x.Location = strings.TrimPrefix(x.Location, "body.")
		said := e.Detail == x.Location+": "+x.Message ||
			x.Location == "body" && strings.HasSuffix(e.Detail, " "+x.Message)
		if !said {
			more = append(more, x)
		}
	}
	return more
}

// isAbout reports whether one of the errors is about a place in the request.
func (e *apiError) isAbout(location string) bool {
	return slices.ContainsFunc(e.Errors, func(x fieldError) bool { return x.Location == location })
}

// response keeps a response of the API in memory. Pages ask for bounded lists only.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// get reads from the API.
func (c *client) get(path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.do(http.MethodGet, path, nil, out)
}

// do calls the API with a JSON body (nil: none) and decodes the response into out (nil: ignored).
// The error is an *apiError for a status other than 2xx.
func (c *client) do(method, path string, in, out any) error {
	if in == nil {
		return c.send(method, path, "", nil, out)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	return c.send(method, path, "application/json", body, out)
}

// with returns a client that sends one more header, unless its value is empty.
func (c *client) with(name, value string) *client {
	if value == "" {
		return c
	}
	other := *c
	other.header = c.header.Clone()
	other.header.Set(name, value)
	return &other
}

// send is do with a body of any type. An empty contentType stands for no body.
func (c *client) send(method, path, contentType string, body []byte, out any) error {
	_, err := c.exchange(method, path, contentType, body, out)
	return err
}

// exchange is send that returns the status of the answer, too.
func (c *client) exchange(
	method, path, contentType string, body []byte, out any,
) (status int, err error) {
	// A chi context of the page's route would make the API's router treat the path as a part of it.
	ctx := context.WithValue(c.viewer.Context(), chi.RouteCtxKey, (*chi.Context)(nil))
	if c.person != nil {
		ctx = auth.WithPerson(ctx, c.person)
	}
	q, err := http.NewRequestWithContext(ctx, method, apiPrefix+path, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("creating a request: %w", err)
	}
	q.RemoteAddr, q.Host, q.Header = c.viewer.RemoteAddr, c.viewer.Host, c.header.Clone()
	// The audit trail then has the id that the viewer's answer has.
	if id := requests.RequestID(ctx); id != "" {
		q.Header.Set(requests.RequestIDHeader, id)
	}
	if contentType != "" {
		q.Header.Set("Content-Type", contentType)
	}
	a := &response{header: make(http.Header)}
	c.api.ServeHTTP(a, q)
	if a.status < 200 || a.status > 299 {
		e := &apiError{Status: a.status}
		_ = json.Unmarshal(a.body.Bytes(), e) // Detail stays empty if it is not JSON
		return a.status, e
	}
	if out == nil {
		return a.status, nil
	}
	if err := json.Unmarshal(a.body.Bytes(), out); err != nil {
		return a.status, fmt.Errorf("reading the API's answer to %s %s: %w", method, path, err)
	}
	return a.status, nil
}

// hasStatus returns whether an error is an answer of the API with a status.
func hasStatus(err error, status int) bool {
	var e *apiError
	return errors.As(err, &e) && e.Status == status
}

// pathOf joins parts of a path, each escaped.
func pathOf(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}
