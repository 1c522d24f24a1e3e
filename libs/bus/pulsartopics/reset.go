package pulsartopics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"

	"github.com/carillon-timer/carillon/libs/bus"
)

// Position is a position of a cursor: one of the ends, or the first message published at or after
// an instant.
type Position struct {
	Earliest, Latest bool
	At               time.Time
}

// Reset sets the cursor of a subscription on every partition. Moving it back redelivers
// acknowledged messages that are still kept. Moving it forward skips waiting messages. Consumers
// are disconnected and reconnect by themselves. Reset is not atomic: if it fails, some partitions
// are unchanged, and it is safe to repeat.
func (t *Topics) Reset(
	ctx context.Context,
	topic bus.Topic,
	subscription string,
	to Position,
) error {
	_, name, err := t.find(topic)
	if err != nil {
		return err
	}
	parts, err := t.parts(ctx, topic, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range parts {
		switch subs := t.admin.Subscriptions(); {
		case to.Earliest:
			err = subs.ResetCursorToMessageIDWithContext(ctx, p, subscription, utils.Earliest)
		case to.Latest:
			err = subs.ResetCursorToMessageIDWithContext(ctx, p, subscription, utils.Latest)
		default:
			err = subs.ResetCursorToTimestampWithContext(ctx, p, subscription, to.At.UnixMilli())
		}
		if err != nil {
			errs = append(
				errs,
				fmt.Errorf(
					"setting the cursor of %s on %s: %w",
					subscription,
					p.GetLocalName(),
					err,
				),
			)
		}
	}
	return errors.Join(errs...)
}
