package pulsarbus

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
)

const (
	watchEvery = 5 * time.Second
	// watchMisses is the number of consecutive checks without the consumer after which it is
	// recreated.
	watchMisses = 3
	// reconnectCheckEvery is the interval of the next reconnectChecks checks after a reconnect
	// signal.
	reconnectCheckEvery = time.Second
	reconnectChecks     = 15
)

// identity returns a unique name for a consumer, to find it at the broker.
func identity() string { return "carillon-" + rand.Text() }

// watch checks periodically, until ctx ends, that the broker knows a consumer on every partition of
// its topic. If not, it calls recreate. This is needed because the client silently gives up when a
// topic is deleted.
//
// A partition whose owner does not answer says nothing about the consumer. While there is one, watch
// does nothing: recreate could not finish, as the client creates a consumer only on all partitions
// together.
//
// topicRecreated reports that the whole topic was gone and is a new one. The check uses the admin
// API, because a request on the client's connection would block while it reconnects. While the
// admin API is unavailable, watch does nothing.
func (b *Bus) watch(
	ctx context.Context,
	topic bus.Topic,
	name string,
	a reconnectSignal,
	recreate func(topicRecreated bool),
) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	misses, gone, reconnectChecksLeft := 0, false, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-a:
			reconnectChecksLeft = reconnectChecks
			ticker.Reset(reconnectCheckEvery)
			continue
		case <-ticker.C:
			if reconnectChecksLeft--; reconnectChecksLeft == 0 {
				ticker.Reset(watchEvery)
			}
		}
		known, err := b.isConnected(ctx, topic, name)
		switch {
		case status(err) == http.StatusNotFound:
			misses, gone = misses+1, true
			if b.restore(topic) != nil {
				continue
			}
		case err != nil || known:
			misses, gone = 0, false
			continue
		default:
			misses++
		}
		if gone || misses >= watchMisses {
			recreate(gone)
			misses, gone = 0, false
		}
	}
}

// topicStats are the statistics of a topic or partition.
type topicStats struct {
	Subscriptions map[string]struct {
		MsgBacklog int64
		Consumers  []struct{ ConsumerName string }
	}
}

func (s topicStats) has(name string) bool {
	for _, sub := range s.Subscriptions {
		for _, c := range sub.Consumers {
			if c.ConsumerName == name {
				return true
			}
		}
	}
	return false
}

// isConnected reports whether a consumer is connected to every partition of a topic. It fails if a
// partition does not answer. A partition that does not exist has no consumers.
func (b *Bus) isConnected(ctx context.Context, topic bus.Topic, name string) (bool, error) {
	n, err := b.partitions(ctx, topic)
	if err != nil {
		return false, err
	}
	if n == 0 {
		var stats topicStats
		err := b.rest.do(ctx, http.MethodGet, b.path(topic)+"/stats", nil, &stats)
		return stats.has(name), err
	}
	var stats struct{ Partitions map[string]topicStats }
	if err := b.rest.do(
		ctx,
		http.MethodGet,
		b.path(topic)+"/partitioned-stats?perPartition=true&excludePublishers=true",
		nil,
		&stats,
	); err != nil {
		return false, err
	}
	connected := true
	for i := range n {
		partition := fmt.Sprintf("%s-partition-%d", topic, i)
		p, ok := stats.Partitions[b.full(bus.Topic(partition))]
		if !ok {
			// The broker leaves out partitions that are lost, and those whose owner does not answer.
			err := b.rest.do(ctx, http.MethodGet, b.path(bus.Topic(partition))+"/stats", nil, &p)
			if err != nil && status(err) != http.StatusNotFound {
				return false, err
			}
		}
		connected = connected && p.has(name)
	}
	return connected, nil
}
