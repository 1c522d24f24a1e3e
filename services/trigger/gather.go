package trigger

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Each slice publishes the few fires that its poll found. Broker, executors and store need far less
// for one batch of all slices than for a batch of each slice.
const (
	gatherWait = 50 * time.Millisecond // for other slices
	// gatherFires is the size from which a batch gains nothing by more.
	gatherFires  = 250
	gatherSlices = publishChunk / gatherFires // whose batches together are no larger than others
	// gatherCalls is how many batches of a topic are published at once. Two of them have no order
	// between them, nor need it: they have fires of different slices, because a slice has one call on
	// a topic at a time. Larger batches of slices are published at once, too.
	gatherCalls = 8
	// gatherAhead is how long before its run time a fire may wait for others.
	gatherAhead = 500 * time.Millisecond
)

// gatherer publishes small batches of several slices as one. Each topic of on-time tasks has its
// own, so that none waits for the other.
type gatherer struct {
	dispatch Dispatcher
	now      func() time.Time
	size     prometheus.Observer // of what is published at once
	high     *group
	normal   *group
}

type group = batch.Group[[]timer.Fire, struct{}]

func newGatherer(d Dispatcher, now func() time.Time, size prometheus.Observer) *gatherer {
	g := &gatherer{dispatch: d, now: now, size: size}
	g.high, g.normal = g.newGroup(), g.newGroup()
	return g
}

func (g *gatherer) newGroup() *group {
	return batch.New(
		batch.Options{
			Max:         gatherSlices,
			Wait:        gatherWait,
			Concurrency: gatherCalls,
			Timeout:     publishTimeout,
		},
		func(ctx context.Context, parts [][]timer.Fire) ([]struct{}, error) {
			return make([]struct{}, len(parts)), g.publish(ctx, slices.Concat(parts...))
		},
	)
}

func (g *gatherer) close() {
	g.high.Close()
	g.normal.Close()
}

func (g *gatherer) publish(ctx context.Context, fires []timer.Fire) error {
	err := g.dispatch.Publish(ctx, fires)
	if err == nil {
		g.size.Observe(float64(len(fires)))
	}
	return err //nolint:wrapcheck // the bus says what failed
}

// Publish publishes the fires on their topic. On a topic of on-time tasks that is together with
// those of other slices, if they are few and none is due soon. If that fails, each slice publishes
// its own again, and a fire published twice is claimed once. A caller that gives up meanwhile has
// lost its lease or stops: its fires may be published.
func (g *gatherer) Publish(ctx context.Context, topic bus.Topic, fires []timer.Fire) error {
	if topic == bus.TasksLow {
		return g.dispatch.PublishLow(ctx, fires) //nolint:wrapcheck // the bus says what failed
	}
	soon := g.now().Add(gatherAhead).UnixMilli()
	if len(fires) >= gatherFires ||
		slices.ContainsFunc(fires, func(f timer.Fire) bool { return f.RunAtMS < soon }) {
		return g.publish(ctx, fires)
	}
	to := g.normal
	if topic == bus.TasksHigh {
		to = g.high
	}
	// A caller that gives up may change its slice, while the call that has it goes on.
	_, err := to.Do(ctx, slices.Clone(fires))
	return err //nolint:wrapcheck // the bus says what failed
}
