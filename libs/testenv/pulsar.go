package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// PulsarNamespace is a namespace of a Pulsar broker.
type PulsarNamespace struct {
	URL       string // pulsar://host:port, more hosts after commas
	AdminURL  string // http://host:port, more hosts after commas
	Tenant    string
	Namespace string
}

const (
	tenant     = "carillon-test"
	retryEvery = 50 * time.Millisecond
)

// Pulsar returns a new, empty namespace. It is removed when the test ends.
func Pulsar(t testing.TB) PulsarNamespace {
	t.Helper()
	return newNamespace(
		t,
		require(t, "pulsar", "CARILLON_TEST_PULSAR_URL"),
		require(t, "pulsar", "CARILLON_TEST_PULSAR_ADMIN_URL"),
	)
}

// PulsarCluster is like Pulsar for a cluster. It returns the namespace as the proxy serves it, and
// as the brokers serve it. The URLs of the brokers have several hosts.
func PulsarCluster(t testing.TB) (proxy, brokers PulsarNamespace) {
	t.Helper()
	const server = "pulsar-cluster"
	proxy = newNamespace(
		t,
		require(t, server, "CARILLON_TEST_PULSAR_PROXY_URL"),
		require(t, server, "CARILLON_TEST_PULSAR_PROXY_ADMIN_URL"),
	)
	brokers = proxy
	brokers.URL = require(t, server, "CARILLON_TEST_PULSAR_CLUSTER_URL")
	brokers.AdminURL = require(t, server, "CARILLON_TEST_PULSAR_CLUSTER_ADMIN_URL")
	return proxy, brokers
}

func newNamespace(t testing.TB, url, adminURL string) PulsarNamespace {
	t.Helper()
	p := PulsarNamespace{
		URL:       url,
		AdminURL:  adminURL,
		Tenant:    tenant,
		Namespace: strings.ReplaceAll(unique(), "_", "-"),
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var clusters []string
	if err := p.admin(ctx, http.MethodGet, "/clusters", nil, &clusters); err != nil {
		t.Fatalf("asking Pulsar for its clusters: %v", err)
	}
	ns := "/namespaces/" + p.Tenant + "/" + p.Namespace
	allowed := map[string]any{"allowedClusters": clusters, "adminRoles": []string{}}
	// Tests of other packages may create the tenant concurrently. Pulsar then fails some of the
	// writes.
	for {
		err := p.admin(ctx, http.MethodPut, "/tenants/"+p.Tenant, allowed, nil)
		if err == nil {
			break
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			t.Fatalf("creating the tenant: %v", err)
		}
	}
	if err := p.admin(ctx, http.MethodPut, ns, map[string]any{}, nil); err != nil {
		t.Fatalf("creating the namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		// The broker refuses while a topic is being closed or loaded, so retry.
		var err error
		for {
			if err = p.admin(ctx, http.MethodDelete, ns+"?force=true", nil, nil); err == nil {
				return
			}
			select {
			case <-ctx.Done():
				t.Logf("namespace %s not removed: %v", p.Namespace, err)
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return p
}

// PulsarTLS is like Pulsar at ports that demand TLS with a client certificate.
func PulsarTLS(t testing.TB) (PulsarNamespace, *Certificates) {
	t.Helper()
	p := Pulsar(t)
	p.URL = require(t, "pulsar", "CARILLON_TEST_PULSAR_TLS_URL")
	p.AdminURL = require(t, "pulsar", "CARILLON_TEST_PULSAR_TLS_ADMIN_URL")
	return p, certificates(t, "pulsar")
}

// admin calls the admin API. It is no error if a created resource exists, or a deleted one is gone.
func (p PulsarNamespace) admin(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.AdminURL+"/admin/v2"+path, body)
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	// No connection must outlive the call.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("reading the response: %w", err)
	case resp.StatusCode == http.StatusConflict && method == http.MethodPut,
		resp.StatusCode == http.StatusNotFound && method == http.MethodDelete:
		return nil
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, data)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decoding the response: %w", err)
	}
	return nil
}
