package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

const (
	callTimeout = 20 * time.Second
	idleConns   = 256
)

// Client calls one deployment. It is safe for concurrent use.
type Client struct {
	base func() string
	hc   *http.Client
	key  string
}

// New returns a client that asks base for the API's address before each call, because restarted
// servers have other addresses and deployments have several. It sends AdminKey. The caller closes
// it.
func New(base func() string) *Client {
	tr := &http.Transport{
		MaxIdleConns:        idleConns,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     time.Minute,
	}
	return &Client{base: base, hc: &http.Client{Transport: tr, Timeout: callTimeout}, key: AdminKey}
}

// NewWithTransport returns a client that sends its requests by rt, for example to a server in this
// process.
func NewWithTransport(rt http.RoundTripper) *Client {
	return &Client{
		base: func() string { return "http://api" },
		hc:   &http.Client{Transport: rt, Timeout: callTimeout},
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.hc.CloseIdleConnections() }

// Error is a response with a status other than 2xx.
type Error struct {
	Status int
	Body   string
	// In v2 (RFC 9457).
	Title  string       `json:"title"`
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors"`
	// In v1.
	Code int    `json:"code"`
	Msg  string `json:"msg"`
}

// FieldError names an invalid field.
type FieldError struct {
	Message  string `json:"message"`
	Location string `json:"location"`
}

func (e *Error) Error() string { return fmt.Sprintf("answer %d: %s", e.Status, e.Body) }

// Answer is the status and headers of a successful response.
type Answer struct {
	Status int
	Header http.Header
}

// Text is a body that is not JSON.
type Text struct {
	Type string // content type
	Body string
}

// Do sends a request with a JSON body (nil: none; a Text: as it is) and decodes the response into
// out (nil: ignored). It returns *Error for a status other than 2xx.
func (c *Client) Do(
	ctx context.Context,
	method, path string,
	header http.Header,
	in, out any,
) (Answer, error) {
	var body io.Reader
	contentType := "application/json"
	switch in := in.(type) {
	case nil:
	case Text:
		contentType, body = in.Type, strings.NewReader(in.Body)
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return Answer{}, fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, c.base()+path, body)
	if err != nil {
		return Answer{}, fmt.Errorf("creating a request: %w", err)
	}
	maps.Copy(q.Header, header)
	c.authorize(q.Header)
	if in != nil {
		q.Header.Set("Content-Type", contentType)
	}
	resp, err := c.hc.Do(q)
	if err != nil {
		return Answer{}, fmt.Errorf("calling the API: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("reading the API's answer: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		e := &Error{Status: resp.StatusCode, Body: string(b)}
		_ = json.Unmarshal(b, e) // Body has the text if it is not JSON
		return Answer{}, e
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			return Answer{}, fmt.Errorf("reading the API's answer %q: %w", b, err)
		}
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header}, nil
}
