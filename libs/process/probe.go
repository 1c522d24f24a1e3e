package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// probeCommand is an argument of every program. It checks whether the program running beside it is
// ready. The images use it as their health check, because they have neither a shell nor curl.
const probeCommand = "probe"

const (
	probeTimeout = 3 * time.Second
	defaultAdmin = "127.0.0.1:8081"
)

// probe requests /readyz at CARILLON_ADMIN_ADDR, and returns why the process is not ready. It does
// not know an address given by flag or file.
func probe(ctx context.Context, env Env, stdout io.Writer) error {
	addr, _ := env("CARILLON_ADMIN_ADDR")
	if addr == "" {
		addr = defaultAdmin
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("CARILLON_ADMIN_ADDR: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	url := "http://" + net.JoinHostPort(host, port) + "/readyz"
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("asking whether it is ready: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(stdout, io.LimitReader(resp.Body, 4<<10)); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", resp.Status)
	}
	return nil
}
