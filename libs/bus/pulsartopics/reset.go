package pulsartopics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/utils"

	"github.com/carillon-timer/carillon/libs/bus"
)

// Position is where a cursor is set: at one of the ends, or at the first message published at an
// instant or later.
type Position struct {
	Earliest, Latest bool
	At               time.Time
}

// Reset sets the cursor of a subscription on every partition. Going back delivers again what was
// acknowledged and is still kept; going forward gives up what waits. Consumers are cut off and come
// back by themselves. It is not one step for all partitions: when it fails halfway, the rest stays
// where it was, and doing it again is safe.
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
