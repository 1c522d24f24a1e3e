package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/carillon-timer/carillon/libs/testenv"
)

// ErrNoServers means that a real server is missing and not required. The text names it.
var ErrNoServers = errors.New("no real servers")

// RealServers returns a database, a key prefix and a namespace on the servers that the environment
// names, and a function that removes them. They may live longer than a test.
func RealServers() (s *Servers, free func(), err error) {
	return realServers(func(l *testLifetime, s *Servers) {
		s.MySQLDSN = testenv.MySQL(l)
		s.RedisAddrs, s.RedisPrefix = testenv.Redis(l)
		s.setPulsar(testenv.Pulsar(l))
	})
}

// RealServersTLS is like RealServers at ports and with a user that demand TLS with a client
// certificate.
func RealServersTLS() (s *Servers, free func(), err error) {
	return realServers(func(l *testLifetime, s *Servers) {
		var files *testenv.Certificates
		s.MySQLDSN, files = testenv.MySQLTLS(l)
		s.RedisAddrs, s.RedisPrefix, _ = testenv.RedisTLS(l)
		p, _ := testenv.PulsarTLS(l)
		s.setPulsar(p)
		s.Files = &files.Files
	})
}

// Redundancy says which servers survive the loss of a node. The others are single servers.
type Redundancy struct {
	Galera   bool // MariaDB
	Sharded  bool // Redis Cluster
	Sentinel bool // Redis with a master that sentinels watch
	Pulsar   bool // its ZooKeepers, bookies and brokers
}

// RealClusters is like RealServers with clusters.
func RealClusters(r Redundancy) (s *Servers, free func(), err error) {
	return realServers(func(l *testLifetime, s *Servers) {
		if r.Galera {
			g := testenv.Galera(l)
			s.MySQLDSN, s.MySQLProxyDSN = g.Of(g.Addrs...), g.DSN
		} else {
			s.MySQLDSN = testenv.MySQL(l)
		}
		switch {
		case r.Sentinel:
			s.RedisAddrs, s.RedisPrefix, s.RedisMaster = testenv.RedisSentinel(l)
		case r.Sharded:
			s.RedisAddrs, s.RedisPrefix = testenv.RedisCluster(l)
		default:
			s.RedisAddrs, s.RedisPrefix = testenv.Redis(l)
		}
		if !r.Pulsar {
			s.setPulsar(testenv.Pulsar(l))
			return
		}
		p, brokers := testenv.PulsarCluster(l)
		s.setPulsar(p)
		s.Brokers, s.BrokersAdmin = brokers.URL, brokers.AdminURL
	})
}

func (s *Servers) setPulsar(p testenv.PulsarNamespace) {
	s.PulsarURL, s.PulsarAdminURL = p.URL, p.AdminURL
	s.PulsarTenant, s.PulsarNamespace = p.Tenant, p.Namespace
}

func realServers(find func(*testLifetime, *Servers)) (s *Servers, free func(), err error) {
	l := new(testLifetime)
	done := make(chan struct{})
	go func() { // Fatalf and Skipf end the goroutine that calls them
		defer close(done)
		s = new(Servers)
		find(l, s)
	}()
	<-done
	if l.err != nil {
		l.free()
		return nil, nil, l.err
	}
	return s, l.free, nil
}

// testLifetime implements the part of testing.TB that testenv uses, outside a test.
type testLifetime struct {
	testing.TB // for its unexported method only

	cleanups []func()
	err      error
}

func (l *testLifetime) Helper()                  {}
func (l *testLifetime) Context() context.Context { return context.Background() }
func (l *testLifetime) Name() string             { return "a cluster over real servers" }
func (l *testLifetime) Cleanup(f func())         { l.cleanups = append(l.cleanups, f) }
func (l *testLifetime) Logf(string, ...any) {
	// testenv logs only resources that stay behind on a test server.
}

func (l *testLifetime) TempDir() string {
	dir, err := os.MkdirTemp("", "carillon-cluster-")
	if err != nil {
		l.Fatalf("creating a directory: %v", err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (l *testLifetime) Errorf(format string, args ...any) {
	l.err = errors.Join(l.err, fmt.Errorf(format, args...))
}

func (l *testLifetime) Fatalf(format string, args ...any) {
	l.Errorf(format, args...)
	runtime.Goexit()
}

func (l *testLifetime) Skipf(format string, args ...any) {
	l.err = fmt.Errorf("%w: "+format, append([]any{ErrNoServers}, args...)...)
	runtime.Goexit()
}

func (l *testLifetime) free() {
	for _, f := range slices.Backward(l.cleanups) {
		f()
	}
	l.cleanups = nil
}
