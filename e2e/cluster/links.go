package cluster

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Dependency is a server that a process reaches over the network.
type Dependency string

// The servers.
const (
	MySQL  Dependency = "MySQL"
	Redis  Dependency = "Redis"
	Pulsar Dependency = "Pulsar"
)

// Links are the proxies between one process and the servers. Each can be cut or slowed.
type Links map[Dependency][]*Proxy

// WithProxies returns the servers with addresses of new proxies, and these proxies.
func (s *Servers) WithProxies(ctx context.Context) (*Servers, Links, error) {
	links := make(Links)
	var failed error
	through := func(dependency Dependency, target string) string {
		p, err := StartProxy(ctx, target)
		if err != nil {
			failed = err
			return target
		}
		links[dependency] = append(links[dependency], p)
		return p.Addr()
	}
	throughURL := func(dependency Dependency, of string) string {
		u, err := url.Parse(of)
		if err != nil {
			failed = fmt.Errorf("reading a URL: %w", err)
			return of
		}
		u.Host = through(dependency, u.Host)
		return u.String()
	}
	to := *s
	user, rest, dsn := strings.Cut(s.MySQLDSN, "@tcp(")
	addr, database, ok := strings.Cut(rest, ")")
	if !dsn || !ok {
		return nil, nil, fmt.Errorf("the DSN %q has no TCP address", s.MySQLDSN)
	}
	to.MySQLDSN = user + "@tcp(" + through(MySQL, addr) + ")" + database
	to.RedisAddrs = nil // a new list, because the cleanup uses the old one
	for _, a := range s.RedisAddrs {
		to.RedisAddrs = append(to.RedisAddrs, through(Redis, a))
	}
	to.PulsarURL, to.PulsarAdminURL = throughURL(
		Pulsar,
		s.PulsarURL,
	), throughURL(
		Pulsar,
		s.PulsarAdminURL,
	)
	if failed != nil {
		links.Close()
		return nil, nil, failed
	}
	return &to, links, nil
}

// All returns every proxy.
func (l Links) All() []*Proxy {
	var all []*Proxy
	for _, dependency := range []Dependency{MySQL, Redis, Pulsar} {
		all = slices.Concat(all, l[dependency])
	}
	return all
}

// Close closes all proxies.
func (l Links) Close() {
	for _, p := range l.All() {
		p.Close()
	}
}
