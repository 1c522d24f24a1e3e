// Package devtest runs the all-in-one process, for tests that call it.
package devtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/allinone"
)

// output collects the output of a program.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Dev is a running all-in-one process.
type Dev struct {
	Api, Admin  string
	Out, ErrOut output
	cancel      context.CancelFunc
	done        chan error
}

// Start starts a process over a data directory, with further settings, and waits until it is ready.
func Start(t *testing.T, dir string, more ...string) *Dev {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	d := &Dev{cancel: cancel, done: make(chan error, 1)}
	env := map[string]string{
		"CARILLON_HTTP_ADDR":  "127.0.0.1:0",
		"CARILLON_ADMIN_ADDR": "127.0.0.1:0",
		"CARILLON_DATA_DIR":   dir,
	}
	for i := 0; i < len(more); i += 2 {
		env[more[i]] = more[i+1]
	}
	began := time.Now()
	go func() {
		d.done <- allinone.Dev(ctx, nil, func(k string) (string, bool) { v, ok := env[k]; return v, ok }, &d.Out, &d.ErrOut)
	}()
	require.Eventually(t, func() bool {
		d.Api, d.Admin = d.addr("http listening"), d.addr("admin listening")
		if d.Admin == "" || d.Api == "" {
			return false
		}
		code, _ := Get(t, d.Admin+"/readyz")
		return code == http.StatusOK
	}, 20*time.Second, 5*time.Millisecond, "%s", &d.ErrOut)
	t.Logf("ready after %s", time.Since(began))
	return d
}

// Stop stops the process and waits for it.
func (d *Dev) Stop(t *testing.T) {
	t.Helper()
	d.cancel()
	require.NoError(t, <-d.done)
}

func (d *Dev) addr(phrase string) string {
	for line := range strings.Lines(d.ErrOut.String()) {
		var l struct{ Message, Addr string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Message == phrase {
			return "http://" + l.Addr
		}
	}
	return ""
}

// Client calls processes without keeping connections.
var Client = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   10 * time.Second,
}

// Get returns the status and body of a GET.
func Get(t *testing.T, url string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := Client.Do(q)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// NoEnv is an empty environment.
func NoEnv(string) (string, bool) { return "", false }

// Do calls the API of a running all-in-one process.
func (d *Dev) Do(t *testing.T, method, path, key, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, d.Api+path, strings.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := Client.Do(q)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// FirstFire creates a one-shot of an app and returns its finished fire with its attempts, or the
// refusal.
func (d *Dev) FirstFire(t *testing.T, key, name, target string) (status int, fire string) {
	t.Helper()
	status, body := d.Do(t, http.MethodPost, "/api/v2/timers", key, fmt.Sprintf(
		`{"app":"mallory","name":%q,"status":"active","schedule":{"kind":"delay","delay":"10ms"},"target":%s,"retry":{"attempts":1}}`,
		name,
		target,
	))
	if status != http.StatusCreated {
		return status, body
	}
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	var list struct{ Items []struct{ ID string } }
	require.Eventually(t, func() bool {
		_, body := d.Do(t, http.MethodGet, "/api/v2/timers/"+made.ID+"/fires?app=mallory", key, "")
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		return len(list.Items) == 1
	}, 20*time.Second, 20*time.Millisecond, name)
	_, body = d.Do(t, http.MethodGet, "/api/v2/fires/"+list.Items[0].ID+"?app=mallory", key, "")
	return status, body
}
