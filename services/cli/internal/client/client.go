package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Timeout limits one request.
	Timeout    = 30 * time.Second
	maxAnswer  = 64 << 20 // bytes of an answer that are read
	pageLength = 1000     // the greatest that the API allows
	prefix     = "/api/v2"
)

// Object is a JSON object of the API as it came. Commands keep all fields, also those that only a
// newer API has. Numbers are json.Number.
type Object map[string]any

// Text returns a field as text; "" if there is none.
func (o Object) Text(name string) string {
	switch v := o[name].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// Int returns a field as a number; 0 if there is none.
func (o Object) Int(name string) int64 {
	n, _ := o[name].(json.Number)
	i, _ := n.Int64()
	return i
}

// Object returns a field that is an object; nil if there is none.
func (o Object) Object(name string) Object {
	m, _ := o[name].(map[string]any)
	return m
}

// List returns a field that is a list; nil if there is none.
func (o Object) List(name string) []any {
	l, _ := o[name].([]any)
	return l
}

// Objects returns a field that is a list of objects.
func (o Object) Objects(name string) []Object {
	var out []Object
	for _, v := range o.List(name) {
		if m, ok := v.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Client calls one API. It is safe for concurrent use.
type Client struct {
	// DryRun makes every request that writes a dry run.
	DryRun bool

	address string
	key     string
	http    *http.Client
}

// New returns a client of an API at an address. An empty key sends none.
func New(address, key string, transport http.RoundTripper) *Client {
	return &Client{
		address: Address(address),
		key:     key,
		http:    &http.Client{Timeout: Timeout, Transport: transport, CheckRedirect: checkRedirect},
	}
}

const maxRedirects = 10

// checkRedirect refuses redirects that make a read of a write: it would change nothing, and succeed.
func checkRedirect(q *http.Request, via []*http.Request) error {
	if via[0].Method != q.Method {
		return fmt.Errorf(
			"%w to %s://%s: use that as its address",
			errRedirects,
			q.URL.Scheme,
			q.URL.Host,
		)
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("%w more than %d times", errRedirects, maxRedirects)
	}
	return nil
}

// Address returns the address of an API without the path of the API, which many copy with it.
func Address(given string) string {
	given = strings.TrimRight(given, "/")
	return strings.TrimRight(strings.TrimSuffix(given, prefix), "/")
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads a resource.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (Object, error) {
	return c.Do(ctx, http.MethodGet, path, query, nil)
}

// Do sends a request. Path follows /api/v2. A nil body sends none. The answer is nil if it is
// empty. An error answer is an *Error.
func (c *Client) Do(
	ctx context.Context,
	method, path string,
	query url.Values,
	body any,
) (Object, error) {
	return c.do(ctx, method, path, query, body, "")
}

// DoOnce is Do for what a request makes anew each time it is sent. The API does it once for a key,
// within a day.
func (c *Client) DoOnce(
	ctx context.Context,
	key, path string,
	query url.Values,
	body any,
) (Object, error) {
	return c.do(ctx, http.MethodPost, path, query, body, key)
}

func (c *Client) do(
	ctx context.Context,
	method, path string,
	query url.Values,
	body any,
	key string,
) (Object, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("encoding a request: %w", err)
		}
	}
	answer, _, err := c.send(ctx, method, path, query, data, "application/json", key)
	if err != nil || len(bytes.TrimSpace(answer)) == 0 {
		return nil, err
	}
	return Decode(answer)
}

// Create sends a request that creates something. created is false if it was there already, alike.
func (c *Client) Create(
	ctx context.Context, path string, body any,
) (o Object, created bool, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, false, fmt.Errorf("encoding a request: %w", err)
	}
	answer, status, err := c.send(ctx, http.MethodPost, path, nil, data, "application/json", "")
	if err != nil {
		return nil, false, err
	}
	o, err = Decode(answer)
	return o, status == http.StatusCreated, err
}

// Send sends a request as Do does, and decodes the answer into out.
func (c *Client) Send(
	ctx context.Context,
	method, path string,
	query url.Values,
	body, out any,
) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	answer, _, err := c.send(ctx, method, path, query, data, "application/json", "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// Upload sends a request whose body has a content type of its own.
func (c *Client) Upload(
	ctx context.Context,
	method, path string,
	query url.Values,
	data []byte,
	contentType string,
) (Object, error) {
	answer, _, err := c.send(ctx, method, path, query, data, contentType, "")
	if err != nil {
		return nil, err
	}
	return Decode(answer)
}

// Decode reads a JSON object.
func Decode(data []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var o Object
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return o, nil
}

func (c *Client) send(
	ctx context.Context,
	method, path string,
	query url.Values,
	data []byte,
	contentType string,
	key string,
) (answer []byte, status int, err error) {
	if c.DryRun && method != http.MethodGet {
		dry := url.Values{"dry_run": {"true"}}
		maps.Copy(dry, query)
		query = dry
	}
	address := c.address + prefix + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if data != nil {
		body = bytes.NewReader(data)
	}
	q, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, 0, fmt.Errorf("making a request: %w", err)
	}
	if data != nil {
		q.Header.Set("Content-Type", contentType)
	}
	if c.key != "" {
		q.Header.Set("Authorization", "Bearer "+c.key)
	}
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	var sent atomic.Bool // it is set by the connection's goroutine
	q = q.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	}))
	resp, err := c.http.Do(q)
	switch {
	case err != nil && sent.Load() && !errors.Is(err, errRedirects):
		return nil, 0, &unansweredError{callError(err)}
	case err != nil:
		return nil, 0, callError(err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, 0, &unansweredError{fmt.Errorf("reading the answer: %w", err)}
	}
	if resp.StatusCode/100 != 2 { //nolint:mnd // the class of successes
		return nil, resp.StatusCode, NewError(resp, answer)
	}
	// A page to sign in, or a proxy, answers 200 with HTML.
	if text := bytes.TrimSpace(answer); len(text) > 0 && text[0] != '{' {
		return nil, resp.StatusCode, NotAPI(c.address, resp)
	}
	return answer, resp.StatusCode, nil
}

// Pages calls each with the items of a list, page by page, until there are no more, limit items
// were read (0: no limit), or each fails.
func (c *Client) Pages(
	ctx context.Context,
	path string,
	query url.Values,
	limit int,
	each func([]Object) error,
) error {
	q := url.Values{}
	maps.Copy(q, query)
	for left := limit; ; {
		n := pageLength
		if limit > 0 {
			n = min(n, left)
		}
		q.Set("limit", strconv.Itoa(n))
		page, err := c.Get(ctx, path, q)
		if err != nil {
			return err
		}
		items := page.Objects("items")
		if err := each(items); err != nil {
			return err
		}
		left -= len(items)
		next := page.Text("next_cursor")
		if next == "" || limit > 0 && left <= 0 {
			return nil
		}
		q.Set("cursor", next)
	}
}

// All returns up to limit items of a list (0: all).
func (c *Client) All(
	ctx context.Context,
	path string,
	query url.Values,
	limit int,
) ([]Object, error) {
	var all []Object
	err := c.Pages(ctx, path, query, limit, func(items []Object) error {
		all = append(all, items...)
		return nil
	})
	return all, err
}

// NotAPI returns the error of a successful answer that is none of the API.
func NotAPI(address string, resp *http.Response) error {
	return fmt.Errorf("calling the API: expected JSON from %s, found %s of type %q\n%s",
		address, resp.Status, resp.Header.Get("Content-Type"), Elsewhere)
}

// callError returns the error of a call without an answer, with what to look at if nobody listens,
// or if the API has no TLS.
func callError(err error) error {
	// The library has no value for this error.
	if strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return fmt.Errorf("calling the API: %w\nit has no TLS: use http://… as its address", err)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("calling the API: %w\n"+
			"is it running there? --api, CARILLON_API or the context names its address", err)
	}
	return fmt.Errorf("calling the API: %w", err)
}
