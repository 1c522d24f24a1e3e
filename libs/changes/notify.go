package changes

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	// The queue is bounded. Further notifications are dropped, because executors also poll the
	// change log.
	maxNotifications = 10_000
	notifyBatch      = 500
	notifyTimeout    = 2 * time.Second
)

// changeNotification tells executors at once that a timer changed.
type changeNotification struct {
	id  timer.ID
	seq int64
}

// notify never blocks: a request does not wait while the broker is down.
func (c *Committer) notify(ctx context.Context, id timer.ID, seq int64) {
	if store.IsDryRun(ctx) {
		return
	}
	select {
	case c.notifications <- changeNotification{id, seq}:
	default:
		c.opts.Notifications.WithLabelValues("dropped").Inc()
	}
}

// Publish publishes queued notifications in batches until stop is closed and the queue
// is empty. While the broker is down it drops each batch after its timeout; executors have read
// those changes from the change log by then.
func (c *Committer) Publish(stop <-chan struct{}) {
	for {
		select {
		case a := <-c.notifications:
			c.publishBatch(c.nextBatch(a))
		case <-stop:
			select {
			case a := <-c.notifications:
				if !c.publishBatch(c.nextBatch(a)) {
					return // a stop does not wait while the broker is down
				}
			default:
				return
			}
		}
	}
}

func (c *Committer) nextBatch(first changeNotification) []bus.Message {
	msgs := []bus.Message{encodeNotification(first)}
	for len(msgs) < notifyBatch {
		select {
		case a := <-c.notifications:
			msgs = append(msgs, encodeNotification(a))
		default:
			return msgs
		}
	}
	return msgs
}

func encodeNotification(a changeNotification) bus.Message {
	payload, err := proto.Marshal(&carillonv1.TimerChanged{TimerId: int64(a.id), Seq: a.seq})
	if err != nil {
		panic(err) // two numbers can always be encoded
	}
	return bus.Message{Key: a.id.String(), Payload: payload}
}

func (c *Committer) publishBatch(msgs []bus.Message) bool {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	if err := c.opts.Bus.Publish(ctx, bus.TimersChanged, msgs...); err != nil {
		c.opts.Notifications.WithLabelValues("lost").Add(float64(len(msgs)))
		c.opts.Logger.Debug().
			Err(err).
			Int(logging.Count, len(msgs)).
			Msg("change notifications lost; executors poll the change log")
		return false
	}
	c.opts.Notifications.WithLabelValues("ok").Add(float64(len(msgs)))
	return true
}
