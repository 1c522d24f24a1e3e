package scenario

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// starting lets one cluster start at a time. Several would ask one broker for hundreds of topics at
// once, and on a busy machine none would be ready in time.
var starting sync.Mutex

func startReal(ctx context.Context, o cluster.Options) (cluster.Cluster, func(), error) {
	return startOn(ctx, o, cluster.RealServers)
}

// startOn starts the services on the servers that find returns.
func startOn(
	ctx context.Context,
	o cluster.Options,
	find func() (*cluster.Servers, func(), error),
) (cluster.Cluster, func(), error) {
	servers, free, err := find()
	if errors.Is(err, cluster.ErrNoServers) {
		return nil, nil, absentError(err.Error())
	}
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	starting.Lock()
	began := time.Now()
	c, err := cluster.StartReal(ctx, o, *servers)
	machine.observeStart(time.Since(began), 10*time.Second)
	starting.Unlock()
	if err != nil {
		free()
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	return c, func() { c.Close(); free() }, nil
}
