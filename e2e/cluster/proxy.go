package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy stands between processes and a server, so that a test can cut them off from it or make the
// way to it slow. It forwards bytes and knows no protocol. One goroutine at a time may change it.
type Proxy struct {
	p    *toxiproxy.Proxy
	slow bool
	held bool
}

// Proxies listen below the ports that the kernel gives to connections by itself: while a way is
// cut, some connection would take its port now and then.
const (
	lowestPort = 10_000
	ports      = 20_000
)

// StartProxy forwards a free port of this host to target (host:port) until Close.
func StartProxy(_ context.Context, target string) (*Proxy, error) {
	const tries = 50
	srv := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var err error
	for range tries {
		p := toxiproxy.NewProxy(
			srv,
			"to "+target,
			fmt.Sprintf("127.0.0.1:%d", lowestPort+rand.IntN(ports)),
			target,
		)
		if err = p.Start(); err == nil {
			return &Proxy{p: p}, nil
		}
	}
	return nil, fmt.Errorf("listening for a proxy: %w", err)
}

// Addr returns host:port of the proxy.
func (p *Proxy) Addr() string { return p.p.Listen }

// URL returns a URL with the proxy in place of its host.
func (p *Proxy) URL(of string) (string, error) {
	u, err := url.Parse(of)
	if err != nil {
		return "", fmt.Errorf("reading a URL: %w", err)
	}
	u.Host = p.Addr()
	return u.String(), nil
}

// Cut breaks all connections and refuses new ones until Heal.
func (p *Proxy) Cut() { p.p.Stop() }

// Hold lets nothing more arrive, in either direction, and says nothing: what a network does that
// loses packets. Heal breaks the connections that were held.
func (p *Proxy) Hold() error {
	for _, way := range []string{"upstream", "downstream"} {
		if err := p.toxic("hold-"+way, "timeout", way, `{"timeout":0}`); err != nil {
			return err
		}
	}
	p.held = true
	return nil
}

// Slow makes each answer come so much later, until Heal.
func (p *Proxy) Slow(by time.Duration) error {
	p.slow = true
	return p.toxic(
		"slow",
		"latency",
		"downstream",
		fmt.Sprintf(`{"latency":%d}`, by.Milliseconds()),
	)
}

func (p *Proxy) toxic(name, kind, way, attributes string) error {
	spec := fmt.Sprintf(
		`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":%s}`,
		name,
		kind,
		way,
		attributes,
	)
	if _, err := p.p.Toxics.AddToxicJson(strings.NewReader(spec)); err != nil {
		return fmt.Errorf("disturbing a connection: %w", err)
	}
	return nil
}

// Heal forwards again, as fast as it can.
func (p *Proxy) Heal() error {
	if p.slow || p.held {
		p.p.Toxics.ResetToxics(context.Background())
		p.slow, p.held = false, false
	}
	if err := p.p.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return fmt.Errorf("listening for a proxy again: %w", err)
	}
	return nil
}

// Connections returns how many connections lead through the proxy just now.
func (p *Proxy) Connections() (int, error) {
	_, port, _ := strings.Cut(p.Addr(), ":")
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, fmt.Errorf("listing connections: %w", err)
	}
	return established(b, port), nil
}

// Close stops forwarding.
func (p *Proxy) Close() { p.p.Stop() }
