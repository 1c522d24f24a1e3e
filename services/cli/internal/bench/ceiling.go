package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	ceilingLength  = 3 * time.Second
	ceilingCallers = 64
)

// Ceiling returns how many bare calls per second this machine makes to a receiver with Go's HTTP
// client. It bounds the fires per second that executors on the same processors can reach. A figure
// that is a ratio to it can be compared between machines.
func Ceiling(ctx context.Context, s Source) (float64, error) {
	u, err := url.Parse(s.URL())
	if err != nil {
		return 0, fmt.Errorf("measuring bare calls: %w", err)
	}
	u.Path = barePath
	const body = `{"order":1234567,"kind":"reminder"}`
	transport := &http.Transport{
		MaxIdleConnsPerHost: ceilingCallers,
		MaxConnsPerHost:     ceilingCallers,
	}
	defer transport.CloseIdleConnections()
	c := http.Client{Transport: transport}
	var calls atomic.Int64
	began := time.Now()
	eg, ctx := errgroup.WithContext(ctx)
	for range ceilingCallers {
		eg.Go(func() error {
			for time.Since(began) < ceilingLength {
				q, err := http.NewRequestWithContext(
					ctx, http.MethodPost, u.String(), strings.NewReader(body))
				if err != nil {
					return fmt.Errorf("measuring bare calls: %w", err)
				}
				resp, err := c.Do(q)
				if err != nil {
					return fmt.Errorf("measuring bare calls: %w", err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("measuring bare calls: %s answered %s", u, resp.Status)
				}
				calls.Add(1)
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return 0, err //nolint:wrapcheck // it says what it was doing
	}
	return float64(calls.Load()) / time.Since(began).Seconds(), nil
}
