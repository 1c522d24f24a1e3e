package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/kube"
)

// startKube installs the chart. Scenarios that inject faults do not run on it: package kube deletes
// pods.
func startKube(ctx context.Context, o cluster.Options) (cluster.Cluster, func(), error) {
	s, err := kube.FromEnv()
	if errors.Is(err, kube.ErrAbsent) {
		return nil, nil, absentError(err.Error())
	}
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	s.OwnSecrets = true
	servers, free, err := cluster.RealServers()
	if err != nil {
		//nolint:wrapcheck // without servers a Kubernetes was not asked for in earnest
		return nil, nil, err
	}
	c, err := kube.StartCluster(
		ctx,
		s,
		fmt.Sprintf("scenarios-%d", time.Now().UnixMilli()),
		o,
		servers,
	)
	if err != nil {
		free()
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	return c, func() { c.Close(); free() }, nil
}
