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

// Proxy is a TCP proxy between processes and a server. Tests can cut or slow its connections. It
// knows no protocol. Only one goroutine at a time may change it.
type Proxy struct {
	p    *toxiproxy.Proxy
	slow bool
	held bool
}

// Proxies listen below the ephemeral port range. Otherwise a new connection could take a proxy's
// port while it is cut.
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

// URL returns the URL with the proxy's address in place of its host.
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

// Hold drops all data in both directions without closing connections, like a network that loses
// packets. Heal closes the held connections.
func (p *Proxy) Hold() error {
	for _, way := range []string{"upstream", "downstream"} {
		if err := p.toxic("hold-"+way, "timeout", way, `{"timeout":0}`); err != nil {
			return err
		}
	}
	p.held = true
	return nil
}

// Slow delays each answer by a duration, until Heal.
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
		return fmt.Errorf("adding a fault to a connection: %w", err)
	}
	return nil
}

// Heal forwards again without delay.
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

// Connections returns the number of connections through the proxy.
func (p *Proxy) Connections() (int, error) {
	_, port, _ := strings.Cut(p.Addr(), ":")
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, fmt.Errorf("listing connections: %w", err)
	}
	return established(b, port), nil
}

// Close stops the proxy.
func (p *Proxy) Close() { p.p.Stop() }
