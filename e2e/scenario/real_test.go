package scenario

import (
	"context"
	"errors"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

func startReal(ctx context.Context, o cluster.Options) (cluster.Cluster, func(), error) {
	servers, free, err := cluster.RealServers()
	if errors.Is(err, cluster.ErrNoServers) {
		return nil, nil, absentError(err.Error())
	}
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	c, err := cluster.StartReal(ctx, o, *servers)
	if err != nil {
		free()
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	return c, func() { c.Close(); free() }, nil
}
