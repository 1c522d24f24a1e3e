package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	// waiting; more are dropped, for the change log tells executors as well.
	maxAnnouncements = 10_000
	announceBatch    = 500
	announceTimeout  = 2 * time.Second
)

// announcement is a change of a timer that executors shall hear of at once.
type announcement struct {
	id  timer.ID
	seq int64
}

// announceLater never blocks: a request does not wait for a broker that is away.
func (s *Service) announceLater(id timer.ID, seq int64) {
	select {
	case s.announce <- announcement{id, seq}:
	default:
		s.metrics.announced.WithLabelValues("dropped").Inc()
	}
}

// announceAll publishes what waits, in batches, until stop is closed and nothing waits any more. A
// broker that is away makes it drop batches after their time instead of repeating them: executors
// have read them in the change log by then.
func (s *Service) announceAll(stop <-chan struct{}) {
	for {
		select {
		case a := <-s.announce:
			s.publish(s.gather(a))
		case <-stop:
			select {
			case a := <-s.announce:
				if !s.publish(s.gather(a)) {
					return // the stop shall not wait for a broker that is away
				}
			default:
				return
			}
		}
	}
}

func (s *Service) gather(first announcement) []bus.Message {
	msgs := []bus.Message{message(first)}
	for len(msgs) < announceBatch {
		select {
		case a := <-s.announce:
			msgs = append(msgs, message(a))
		default:
			return msgs
		}
	}
	return msgs
}

func message(a announcement) bus.Message {
	payload, err := proto.Marshal(&carillonv1.TimerChanged{TimerId: int64(a.id), Seq: a.seq})
	if err != nil {
		panic(err) // two numbers can always be encoded
	}
	return bus.Message{Key: a.id.String(), Payload: payload}
}

func (s *Service) publish(msgs []bus.Message) bool {
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	if err := s.opts.Bus.Publish(ctx, bus.TimersChanged, msgs...); err != nil {
		s.metrics.announced.WithLabelValues("lost").Add(float64(len(msgs)))
		s.opts.Logger.Debug().
			Err(err).
			Int(logging.Count, len(msgs)).
			Msg("changes not announced, executors read them in the change log")
		return false
	}
	s.metrics.announced.WithLabelValues("ok").Add(float64(len(msgs)))
	return true
}
