package trigger

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Each slice publishes the few fires that its poll found. Broker, executors and store need far less
// for one batch of all slices than for a batch of each slice.
const (
	gatherWait = 50 * time.Millisecond // for other slices
	// gatherFires is the size from which a batch gains nothing by more.
	gatherFires  = 250
	gatherSlices = publishChunk / gatherFires // whose batches together are no larger than others
	// gatherAhead is how long before its run time a fire may wait for others.
	gatherAhead = 500 * time.Millisecond
)

// gatherer publishes small batches of several slices as one.
type gatherer struct {
	Dispatcher
	now   func() time.Time
	size  prometheus.Observer // of what is published at once
	group *batch.Group[[]timer.Fire, struct{}]
}

func newGatherer(d Dispatcher, now func() time.Time, size prometheus.Observer) *gatherer {
	g := &gatherer{Dispatcher: d, now: now, size: size}
	g.group = batch.New(
		batch.Options{Max: gatherSlices, Wait: gatherWait, Timeout: publishTimeout},
		func(ctx context.Context, parts [][]timer.Fire) ([]struct{}, error) {
			return make([]struct{}, len(parts)), g.publish(ctx, slices.Concat(parts...))
		},
	)
	return g
}

func (g *gatherer) publish(ctx context.Context, fires []timer.Fire) error {
	err := g.Dispatcher.Publish(ctx, fires)
	if err == nil {
		g.size.Observe(float64(len(fires)))
	}
	return err //nolint:wrapcheck // the bus says what failed
}

// Publish publishes the fires, together with those of other slices if they are few and none is due
// soon. If that fails, each slice publishes its own again, and a fire published twice is claimed
// once. A caller that gives up meanwhile has lost its lease or stops: its fires may be published.
func (g *gatherer) Publish(ctx context.Context, fires []timer.Fire) error {
	soon := g.now().Add(gatherAhead).UnixMilli()
	if len(fires) >= gatherFires ||
		slices.ContainsFunc(fires, func(f timer.Fire) bool { return f.RunAtMS < soon }) {
		return g.publish(ctx, fires)
	}
	// A caller that gives up may change its slice, while the call that has it goes on.
	_, err := g.group.Do(ctx, slices.Clone(fires))
	return err //nolint:wrapcheck // the bus says what failed
}
