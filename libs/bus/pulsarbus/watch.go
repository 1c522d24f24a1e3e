package pulsarbus

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
)

const (
	watchEvery = 5 * time.Second
	// looks in a row after which a consumer that the broker does not know is made anew.
	watchMisses = 3
	// After an alarm the looks are nearer, and so many in a row, before it is back to the usual.
	reconnectCheckEvery = time.Second
	reconnectChecks     = 15
)

// identity names a consumer, so that it can be found among the broker's.
func identity() string { return "carillon-" + rand.Text() }

// watch looks from time to time, until ctx ends, whether the broker still knows a consumer on every
// partition of its topic, and calls again when it does not. It is needed because the client gives
// up without a word when a topic is deleted. anew tells that the topic was gone as a whole, and is
// another one now. Asking on the client's own connection would hang while it reconnects, so the
// admin API is asked; while that is away, nothing is known and nothing happens.
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

// topicStats is what the broker tells of a topic or partition.
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

// isConnected tells whether a consumer is connected to every partition of a topic.
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
		b.path(topic)+"/partitioned-stats?perPartition=true",
		nil,
		&stats,
	); err != nil {
		return false, err
	}
	for _, p := range stats.Partitions {
		if !p.has(name) {
			return false, nil
		}
	}
	return len(stats.Partitions) >= n, nil
}
