package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// Limits of `carillon try`.
const (
	tryDelay     = 2 * time.Second // from the creation of the timer to its due instant
	tryPoll      = 200 * time.Millisecond
	tryCall      = 10 * time.Second // per request
	tryMaxAnswer = 1 << 20          // bytes of an answer that are read
)

// tryCommand is one run of `carillon try`, and its settings.
type tryCommand struct {
	api, listen, url, app string
	ready                 []string
	canary                bool
	patience, keyPatience time.Duration
	credentials           credentials
	tls                   certfile.Files // for the API and the addresses of /readyz

	out    io.Writer
	client *http.Client
}

// Register registers the settings.
func (t *tryCommand) Register(s *config.Set) {
	s.String(&t.api, "api", "http://127.0.0.1:8080", "address of the API")
	s.List(&t.ready, "ready", "", "addresses of /readyz to wait for, separated by commas")
	s.Bool(
		&t.canary,
		"canary",
		false,
		"wait until the first of them reports that the canary timer was delivered",
	)
	s.String(&t.listen, "listen", ":8090", "where the callback is received")
	s.String(
		&t.url,
		"url",
		"",
		"this process's address as executors reach it; empty: no timer is created, only -ready is checked",
	)
	s.String(&t.app, "app", "carillon-try", "app of the timer")
	t.credentials.register(s)
	s.String(
		&t.tls.CA,
		"tls-ca",
		"",
		"file with the authorities of the API's certificate, in PEM; without it the system's",
	)
	s.String(&t.tls.Cert, "tls-cert", "", "file with the certificate to show to the API, in PEM")
	s.String(&t.tls.Key, "tls-key", "", "file with its key, in PEM")
	s.Duration(&t.patience, "patience", 2*time.Minute, "time limit for everything")
	s.Duration(
		&t.keyPatience,
		"key-patience",
		0,
		"how long the key may be unknown: after a change of the key, replicas that are stopping may still answer",
	)
}

// Validate checks the settings.
func (t *tryCommand) Validate() error {
	if t.canary && len(t.ready) == 0 {
		return errors.New("canary: it is checked at the first address of -ready, which is empty")
	}
	if t.url == "" && len(t.ready) == 0 {
		return errors.New(
			"url: missing: give the address at which executors reach this process (-listen), such as http://this-host:8090/; or give -ready, to check no call",
		)
	}
	if t.url == "" {
		return nil
	}
	if u, err := url.Parse(bracketed(t.url)); err != nil || u.Host == "" {
		return fmt.Errorf("url: %q is not http://host:port/path", t.url)
	}
	return nil
}

// bracketed puts the brackets around an IPv6 address that is followed by a port:
// http://fd00::1:8090/ becomes http://[fd00::1]:8090/. Kubernetes gives the pod of `helm test` its
// address without them.
func bracketed(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	end := strings.IndexByte(rest+"/", '/')
	port := strings.LastIndexByte(rest[:end], ':')
	if !found || port < 0 {
		return address
	}
	if ip, err := netip.ParseAddr(rest[:port]); err != nil || !ip.Is6() {
		return address
	}
	return scheme + "://[" + rest[:port] + "]" + rest[port:]
}

// Try checks a cluster from outside. Its services must be ready and its canary delivered. A new
// timer must call this process, and the call must be recorded. Try then deletes the timer. `helm
// test` runs it.
func Try(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
	t := &tryCommand{out: stdout, client: &http.Client{Timeout: tryCall}}
	defer func() { t.client.CloseIdleConnections() }()
	// Only the key comes from the environment, because a service's settings do not apply here.
	if err := config.NewSet("carillon try", t).Load(args, noEnvironment, stdout); err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	if err := t.credentials.read(env); err != nil {
		return err
	}
	transport, err := t.transport()
	if err != nil {
		return err
	}
	t.client.Transport = transport
	t.api, t.url = client.Address(t.api), bracketed(t.url)
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	for i, address := range t.ready {
		if err := t.waitReady(ctx, address, t.canary && i == 0); err != nil {
			return err
		}
	}
	if t.url == "" {
		return nil
	}
	return t.checkCallback(ctx, stderr)
}

// transport returns what connects to the API and to addresses of /readyz. Each new connection uses
// what the files of TLS have then.
func (t *tryCommand) transport() (*http.Transport, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if t.tls == (certfile.Files{}) {
		return transport, nil
	}
	client, err := certfile.LoadClient("tls", t.tls, zerolog.Nop())
	if err != nil {
		return nil, config.Problem(err) // it names the setting
	}
	transport.DialTLSContext = client.DialContext
	return transport, nil
}

// waitReady waits until an address reports that it is ready and, if requested, that its canary was
// delivered. It does not wait for a canary that is switched off.
func (t *tryCommand) waitReady(ctx context.Context, address string, canary bool) error {
	said := errors.New("no answer")
	off := false
	err := t.poll(ctx, func() string { return fmt.Sprintf("%s: %v", address, said) }, func() bool {
		var answer struct {
			Checks []struct {
				Name   string `json:"name"`
				OK     bool   `json:"ok"`
				Detail struct {
					Outcome    string `json:"outcome"`
					LatenessMS int64  `json:"lateness_ms"`
				} `json:"detail"`
			} `json:"checks"`
		}
		if said = t.do(ctx, http.MethodGet, address, nil, &answer); said != nil {
			return false
		}
		if !canary {
			fmt.Fprintln(t.out, "ready:", address)
			return true
		}
		off = true // a ready process has a check of the canary unless it has no canary
		for _, c := range answer.Checks {
			off = off && c.Name != "canary"
			if c.Name == "canary" && c.OK && c.Detail.Outcome == "delivered" {
				fmt.Fprintf(
					t.out,
					"ready: %s; the canary was delivered, %d ms late\n",
					address,
					c.Detail.LatenessMS,
				)
				return true
			}
		}
		said = errors.New("the canary has not been delivered")
		return off
	})
	if err == nil && off {
		return fmt.Errorf(
			"%s is ready and has no canary: its setting canary is 0; leave out -canary",
			address,
		)
	}
	return err
}

// checkCallback creates a timer that calls this process, waits for the call and its record, and
// deletes the timer.
func (t *tryCommand) checkCallback(ctx context.Context, stderr io.Writer) error {
	log, err := logging.New(stderr, "warn", "auto", "try")
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	ln, err := process.Listen(ctx, t.listen, logging.HTTPListening, log)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	calls := make(chan http.Header, 1)
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- process.Serve(ln, receive(calls), time.Second, log)(serving) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			fmt.Fprintln(t.out, "the endpoint failed:", err)
		}
	}()

	var made struct {
		ID string `json:"id"`
	}
	began := time.Now()
	create := func() error {
		return t.do(ctx, http.MethodPost, t.api+"/api/v2/timers", map[string]any{
			"app":      t.app,
			"name":     fmt.Sprintf("try-%d", began.UnixNano()),
			"status":   "active",
			"schedule": map[string]any{"kind": "delay", "delay": tryDelay.String()},
			"target": map[string]any{
				"kind":   "http",
				"url":    t.url,
				"method": http.MethodPost,
				"body":   "try",
			},
		}, &made)
	}
	err = create()
	for errors.Is(err, errUnknownKey) && time.Since(began) < t.keyPatience {
		clock.Pause(ctx, tryPoll)
		err = create()
	}
	if err != nil {
		return fmt.Errorf("creating a timer: %w", err)
	}
	of := fmt.Sprintf("%s/api/v2/timers/%s", t.api, url.PathEscape(made.ID))
	app := "?" + url.Values{"app": {t.app}}.Encode()
	defer t.deleteTimer(ctx, of+app)
	fmt.Fprintf(t.out, "timer %s is created, due in %s\n", made.ID, tryDelay)
	select {
	case h := <-calls:
		fmt.Fprintf(
			t.out,
			"called: fire %q after %s\n",
			h.Get(callback.HeaderFireID),
			time.Since(began).Round(time.Millisecond),
		)
	case <-ctx.Done():
		return fmt.Errorf(
			"the timer did not call (can executors reach %s? private addresses need callback-allow or callback-allow-private): %w",
			t.url,
			ctx.Err(),
		)
	}
	last := "none"
	return t.poll(ctx, func() string { return "the record of the fire: " + last }, func() bool {
		var page struct {
			Items []struct {
				Status     string `json:"status"`
				LatenessMS int64  `json:"lateness_ms"`
			} `json:"items"`
		}
		if err := t.do(ctx, http.MethodGet, of+"/fires"+app, nil, &page); err != nil {
			last = err.Error()
			return false
		}
		if len(page.Items) != 1 || page.Items[0].Status != "delivered" {
			last = fmt.Sprintf("%+v", page.Items)
			return false
		}
		fmt.Fprintf(t.out, "recorded: delivered, %d ms late\n", page.Items[0].LatenessMS)
		return true
	})
}

// receive accepts every call and passes on the first.
func receive(calls chan<- http.Header) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case calls <- r.Header:
		default:
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// deleteTimer deletes the timer, also after a failure. If that fails too, the timer is a past delay
// and never fires again.
func (t *tryCommand) deleteTimer(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryCall)
	defer cancel()
	if err := t.do(ctx, http.MethodDelete, address, nil, nil); err != nil {
		fmt.Fprintln(t.out, "the timer was not deleted:", err)
	}
}

// poll repeats done until it returns true or ctx ends. what describes what was missing, for the
// error.
func (t *tryCommand) poll(ctx context.Context, what func() string, done func() bool) error {
	tick := time.NewTicker(tryPoll)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what(), ctx.Err())
		}
	}
	return nil
}

// do sends a request and decodes the answer's JSON into out, unless out is nil.
func (t *tryCommand) do(ctx context.Context, method, address string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	q, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	if in != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	ofAPI := strings.HasPrefix(address, t.api+"/")
	if ofAPI {
		t.credentials.authorize(q.Header)
	}
	resp, err := t.client.Do(q)
	if err != nil {
		return err //nolint:wrapcheck // it names method and address
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, tryMaxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer: %w", err)
	case resp.StatusCode/100 != 2 && ofAPI:
		return t.credentials.responseError(resp, data, t.app)
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(data))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		if ofAPI {
			return client.NotAPI(t.api, resp) //nolint:wrapcheck // it says what answered
		}
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}
