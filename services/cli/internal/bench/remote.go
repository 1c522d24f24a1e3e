package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const remoteTimeout = time.Minute // of one request to the receiver

// Remote is a receiver on another machine.
type Remote struct {
	address string
	http    http.Client
}

// NewRemote returns the receiver at an address such as http://host:9000.
func NewRemote(address string) *Remote {
	return &Remote{
		address: strings.TrimSuffix(address, "/"),
		http:    http.Client{Timeout: remoteTimeout},
	}
}

// URL implements Source.
func (r *Remote) URL() string { return r.address + "/call" }

// Reset implements Source.
func (r *Remote) Reset(ctx context.Context) error {
	_, err := r.get(ctx, resetPath)
	return err
}

// Count implements Source.
func (r *Remote) Count(ctx context.Context) (int64, error) {
	data, err := r.get(ctx, countPath)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("asking the receiver: %w", err)
	}
	return n, nil
}

// Arrivals implements Source.
func (r *Remote) Arrivals(ctx context.Context) ([]Arrival, error) {
	data, err := r.get(ctx, arrivalsPath)
	if err != nil {
		return nil, err
	}
	return readArrivals(data)
}

func (r *Remote) get(ctx context.Context, path string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the receiver: %w", err)
	}
	resp, err := r.http.Do(q)
	if err != nil {
		return nil, fmt.Errorf("asking the receiver: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the receiver: %w", err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf(
			"asking the receiver: %s%s answered %s; run carillon bench receive there",
			r.address, path, resp.Status,
		)
	}
	return data, nil
}
