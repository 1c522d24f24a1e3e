package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Servers are the real servers that a cluster has for itself: a database, a key prefix, a namespace.
type Servers struct {
	MySQLDSN        string
	RedisAddrs      []string
	RedisPrefix     string
	PulsarURL       string
	PulsarAdminURL  string
	PulsarTenant    string
	PulsarNamespace string
}

func (s *Servers) env() map[string]string {
	return map[string]string{
		"CARILLON_MYSQL_DSN":        s.MySQLDSN,
		"CARILLON_REDIS_ADDRS":      strings.Join(s.RedisAddrs, ","),
		"CARILLON_REDIS_PREFIX":     s.RedisPrefix,
		"CARILLON_PULSAR_URL":       s.PulsarURL,
		"CARILLON_PULSAR_ADMIN_URL": s.PulsarAdminURL,
		"CARILLON_PULSAR_TENANT":    s.PulsarTenant,
		"CARILLON_PULSAR_NAMESPACE": s.PulsarNamespace,
	}
}

// StartAllInOne runs `carillon dev` and waits until it is ready. Its data stays in Options.Dir over restarts.
func StartAllInOne(ctx context.Context, o Options) (Cluster, error) {
	p := newProcess(&o, "carillon", "carillon", true, []string{"dev"},
		map[string]string{"CARILLON_DATA_DIR": filepath.Join(o.Dir, "data")})
	g := &group{name: "allinone", procs: []*Process{p}, roles: make(map[Role][]*Process)}
	for _, r := range Roles() {
		g.roles[r] = g.procs
	}
	return g, g.start(ctx)
}

// StartReal runs the five services in processes of their own over real servers and waits until all are ready.
func StartReal(ctx context.Context, o Options, s Servers) (Cluster, error) {
	g := &group{name: "real", servers: &s, roles: make(map[Role][]*Process)}
	for _, r := range Roles() {
		for i := range max(o.Replicas, 1) {
			p := newProcess(&o, fmt.Sprintf("%s-%d", r, i), "carillon-"+string(r), r == API, nil, s.env())
			g.procs = append(g.procs, p)
			g.roles[r] = append(g.roles[r], p)
		}
	}
	return g, g.start(ctx)
}
