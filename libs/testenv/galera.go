package testenv

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// GaleraCluster is a new, empty database on a cluster.
type GaleraCluster struct {
	// DSN gives each connection another node.
	DSN string
	// Addrs are the addresses of the nodes.
	Addrs []string

	config *mysql.Config
}

// Galera returns a new, empty database on the cluster of the tests.
func Galera(t testing.TB) *GaleraCluster {
	t.Helper()
	return GaleraAt(
		t,
		require(t, "galera", "CARILLON_TEST_GALERA_DSN"),
		require(t, "galera", "CARILLON_TEST_GALERA_ADDRS"),
	)
}

// GaleraAt returns a new, empty database on a cluster, which every node has. It is removed when the
// test ends. addrs are the addresses of the nodes, separated by commas.
func GaleraAt(t testing.TB, dsn, addrs string) *GaleraCluster {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatalf("reading the cluster's DSN: %v", err)
	}
	name := "carillon_" + unique()
	server := config.FormatDSN()
	execute(t, server, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name) })
	config = config.Clone()
	config.DBName = name
	g := &GaleraCluster{
		DSN:    config.FormatDSN(),
		Addrs:  strings.Split(addrs, ","),
		config: config,
	}
	for _, addr := range g.Addrs {
		g.await(t, addr)
	}
	return g
}

// Of returns the DSN for a list of nodes.
func (g *GaleraCluster) Of(addrs ...string) string {
	to := g.config.Clone()
	to.Addr = "NODES"
	return strings.Replace(to.FormatDSN(), "NODES", strings.Join(addrs, ","), 1)
}

// await waits until a node has the database: to connect to a database waits for no other node.
func (g *GaleraCluster) await(t testing.TB, addr string) {
	t.Helper()
	db, err := sql.Open("mysql", g.Of(addr))
	if err != nil {
		t.Fatalf("opening the node %s: %v", addr, err)
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the node %s does not have the new database: %v", addr, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
