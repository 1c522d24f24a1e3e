package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// silence is how long a stream may send nothing. The API sends a heartbeat each 15 s.
	silence = 45 * time.Second
	// linesSilence is the same for a stream of lines, which has no heartbeat: the API may examine
	// very many timers between two lines.
	linesSilence = 10 * time.Minute
	maxEventLine = 1 << 20 // bytes
)

// ErrSilent is the error of a stream that sent nothing for too long.
var ErrSilent = errors.New("the stream sent nothing for too long")

// Stream calls opened once the API has answered, and then each for the events of a stream of
// server-sent events until it ends, with nil, or each fails. lastID is where the stream goes on,
// empty: at its begin. What happens after opened is called is in the stream. It returns the id with
// which to go on.
func (c *Client) Stream(
	ctx context.Context,
	path string,
	query url.Values,
	lastID string,
	opened func(),
	each func(Object) error,
) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(ErrSilent) })
	defer watch.Stop()
	resp, err := c.open(ctx, path, query, "text/event-stream", lastID)
	if err != nil {
		return lastID, err
	}
	defer resp.Body.Close()
	opened()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	var id, data string
	for lines.Scan() {
		watch.Reset(silence)
		switch name, value, _ := strings.Cut(lines.Text(), ":"); name {
		case "id":
			id = strings.TrimPrefix(value, " ")
		case "data":
			data += strings.TrimPrefix(value, " ")
		case "": // the end of an event, or a comment
			if value != "" {
				continue
			}
			if data != "" {
				event, err := Decode([]byte(data))
				if err != nil {
					return lastID, err
				}
				if err := each(event); err != nil {
					return lastID, err
				}
			}
			if id != "" {
				lastID = id
			}
			id, data = "", ""
		}
	}
	if err := lines.Err(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return lastID, fmt.Errorf("reading the stream: %w", err)
	}
	return lastID, nil
}

// Lines calls each for the lines of a stream of JSON objects until it ends, with nil, or each fails.
// A stream that breaks off is an error.
func (c *Client) Lines(
	ctx context.Context,
	path string,
	query url.Values,
	each func(Object) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(linesSilence, func() { cancel(ErrSilent) })
	defer watch.Stop()
	resp, err := c.open(ctx, path, query, "application/x-ndjson", "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(resp.Body)
	lines.UseNumber()
	for {
		var o Object
		switch err := lines.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("reading the stream: %w", err)
		}
		watch.Reset(linesSilence)
		if err := each(o); err != nil {
			return err
		}
	}
}

// open begins a stream. The caller closes its body.
func (c *Client) open(
	ctx context.Context,
	path string,
	query url.Values,
	accept, lastID string,
) (*http.Response, error) {
	q, err := http.NewRequestWithContext(
		ctx, http.MethodGet, c.address+prefix+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	q.Header.Set("Accept", accept)
	if lastID != "" {
		q.Header.Set("Last-Event-ID", lastID)
	}
	if c.key != "" {
		q.Header.Set("Authorization", "Bearer "+c.key)
	}
	endless := http.Client{Transport: c.http.Transport}
	resp, err := endless.Do(q)
	if err != nil {
		return nil, callError(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
		return nil, NewError(resp, answer)
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, accept) {
		_ = resp.Body.Close()
		return nil, NotAPI(c.address, resp)
	}
	return resp, nil
}
