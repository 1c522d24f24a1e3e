package pulsarbus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/bus/pulsaradmin"
)

const (
	restTimeout = 10 * time.Second // of one request
	// restMaxBody is the largest answer that is read, in bytes. Statistics have each consumer of
	// each partition.
	restMaxBody = 64 << 20
)

// rest is a client of the admin REST API. Most calls of the library's admin package take no
// context.
type rest struct {
	base   string
	hosts  string // for errors: the broker's answers do not name it
	client *http.Client
}

func newREST(c *Config) (*rest, error) {
	t, err := pulsaradmin.NewTransport(
		pulsaradmin.Options{URL: c.AdminURL, Tokens: c.Tokens, TLS: c.TLS},
	)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the URL
	}
	_, hosts, err := pulsaradmin.SplitURL(c.AdminURL)
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	return &rest{
		base:   t.Base() + "/admin/v2",
		hosts:  strings.Join(hosts, ","),
		client: &http.Client{Transport: t, Timeout: restTimeout},
	}, nil
}

// statusError is an unsuccessful response.
type statusError struct {
	code   int
	reason string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.reason) }

// status returns the status code of an error, or 0.
func status(err error) int {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.code
	}
	return 0
}

// create creates a resource that may already exist. If two create it concurrently, one gets 409,
// which is no error.
func (r *rest) create(ctx context.Context, path string, in any) error {
	err := r.do(ctx, http.MethodPut, path, in, nil)
	if status(err) == http.StatusConflict {
		return nil
	}
	return err
}

// do sends in as JSON unless it is nil, and decodes the response into out unless it is nil.
func (r *rest) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err // err names the method and the URL
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, restMaxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: reading the answer: %w", method, path, err)
	case len(data) > restMaxBody:
		return fmt.Errorf("%s %s: the answer is larger than %d bytes", method, path, restMaxBody)
	case resp.StatusCode >= 300:
		return fmt.Errorf(
			"%s %s: %w",
			method,
			path,
			&statusError{code: resp.StatusCode, reason: reason(data)},
		)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: decoding the answer: %w", method, path, err)
	}
	return nil
}

// reason extracts the message from an error response.
func reason(body []byte) string {
	var answer struct{ Reason string }
	if json.Unmarshal(body, &answer) == nil && answer.Reason != "" {
		return answer.Reason
	}
	return string(body[:min(len(body), 200)])
}
