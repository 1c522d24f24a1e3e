package kube

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// Cluster implements cluster.Cluster for a release, so that scenarios can call its API and read its
// pods' metrics. Its pods cannot be killed like processes; the tests of this package delete pods.
type Cluster struct {
	*Release
}

var _ cluster.Cluster = (*Cluster)(nil)

// StartCluster installs the chart in its own namespace.
func StartCluster(
	ctx context.Context,
	s *Settings,
	namespace string,
	o cluster.Options,
	servers *cluster.Servers,
) (*Cluster, error) {
	r, err := Install(
		ctx,
		Options{
			Settings:  *s,
			Namespace: namespace,
			Dir:       o.Dir,
			Servers:   servers,
			Replicas:  max(o.Replicas, 1),
			Env:       o.Env,
		},
	)
	if err != nil {
		return nil, err
	}
	return &Cluster{Release: r}, nil
}

// Name implements cluster.Cluster.
func (c *Cluster) Name() string { return "kube" }

// API implements cluster.Cluster. The Service distributes the connections.
func (c *Cluster) API() string { return c.api }

// Role implements cluster.Cluster.
func (c *Cluster) Role(r cluster.Role) []*cluster.Process { return c.procs[r] }

// Processes implements cluster.Cluster.
func (c *Cluster) Processes() []*cluster.Process {
	var all []*cluster.Process
	for _, r := range cluster.Roles() {
		all = append(all, c.procs[r]...)
	}
	return all
}

// Servers implements cluster.Cluster.
func (c *Cluster) Servers() *cluster.Servers { return c.o.Servers }

const closeTimeout = 4 * time.Minute

// Close implements cluster.Cluster. It prints what it cannot remove.
func (c *Cluster) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if os.Getenv("CARILLON_E2E_KEEP") != "" {
		return
	}
	if err := c.Uninstall(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "uninstalling a release:", err)
	}
	if err := c.Release.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "deleting a namespace:", err)
	}
}
