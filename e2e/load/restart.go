package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// restart kills all processes at an instant, and starts them again at once.
func (b *Bench) restart(ctx context.Context, at time.Time, r *Result) error {
	if err := wait(ctx, at); err != nil {
		return err
	}
	r.Killed = time.Now()
	var killed sync.WaitGroup
	for _, p := range b.Cluster.Processes() {
		killed.Go(func() { p.Kill() })
	}
	killed.Wait()
	r.died = time.Since(r.Killed)
	var started errgroup.Group
	for _, p := range b.Cluster.Processes() {
		started.Go(func() error { return p.Start(ctx) })
	}
	if err := started.Wait(); err != nil {
		return fmt.Errorf("starting after the kill: %w", err)
	}
	return nil
}
