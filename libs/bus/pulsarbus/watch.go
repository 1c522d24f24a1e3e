package pulsarbus

import (
	"context"
	"errors"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const (
	watchEvery  = 5 * time.Second
	watchMisses = 2 // failed looks in a row, while the broker answers others, after which a consumer is made anew
)

// watch makes a consumer anew that the client has given up: when a topic is deleted, the client stops reconnecting
// without a word. A look asks the broker for the last message of each partition, on the consumer's own connection.
func (c *consumer) watch() {
	watch(c.ctx, c.bus, func() error {
		_, err := c.client().GetLastMessageIDs()
		return err
	}, func() {
		fresh, err := c.open(c.ctx)
		if err != nil {
			return // closing
		}
		c.log.Warn().Msg("consumer was lost and is made anew")
		c.mu.Lock()
		old := c.current
		c.current = fresh
		c.mu.Unlock()
		old.Close()
	})
}

func (c *consumer) client() pulsar.Consumer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// watch looks from time to time, until ctx ends, and calls again when looks fail although the broker is there.
func watch(ctx context.Context, b *Bus, look func() error, again func()) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	misses := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := look()
		if err == nil || errors.Is(err, context.Canceled) {
			misses = 0
			continue
		}
		pinged, cancel := context.WithTimeout(ctx, operationTimeout)
		away := b.Ping(pinged)
		cancel()
		if away != nil {
			misses = 0 // nobody can reach it: the client reconnects
			continue
		}
		if misses++; misses >= watchMisses {
			misses = 0
			again()
		}
	}
}
