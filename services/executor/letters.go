package executor

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	eventsMax     = 50_000 // outcomes that wait to be announced; further ones are not announced
	eventsTimeout = 5 * time.Second
	lettersWait   = 5 * time.Second
)

// bury publishes the dead letters of failed fires. It comes before the record: dying between the two repeats the last attempt and
// the letter, with the same fire id; the other way round a letter would be lost.
func (s *Service) bury(ctx context.Context, rs []result) error {
	var letters []bus.Message
	for i := range rs {
		o := &rs[i].outcome
		if o.Kind != timer.Failed {
			continue
		}
		app := s.book.app(o.Timer)
		task := new(carillonv1.Task)
		if err := proto.Unmarshal(taskwire.Encode(&o.Fire), task); err != nil {
			return err //nolint:wrapcheck // cannot happen: both write the same message
		}
		d := &carillonv1.DeadTask{
			Task: task, App: app, Reason: string(o.Reason),
			Attempts: o.Attempts, StatusCode: o.StatusCode,
		}
		if a := rs[i].attempt; a != nil {
			d.LastError = a.Error
		}
		payload, err := proto.Marshal(d)
		if err != nil {
			return err //nolint:wrapcheck // cannot happen: no field is text that came from outside unchecked
		}
		letters = append(letters, bus.Message{Key: app, Payload: payload, Properties: map[string]string{
			bus.PropReason: string(o.Reason), bus.PropFire: o.FireID.String(), bus.PropTimer: o.Timer.String(), bus.PropApp: app,
		}})
	}
	if len(letters) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lettersWait)
	defer cancel()
	return s.opts.Bus.Publish(ctx, bus.TasksDead, letters...) //nolint:wrapcheck // the bus says which topic
}

// announcer publishes outcomes for whoever listens, after they are recorded. It is best effort: the record is the truth.
type announcer struct {
	svc *Service
	ch  chan timer.Outcome
}

func newAnnouncer(s *Service) *announcer {
	return &announcer{svc: s, ch: make(chan timer.Outcome, eventsMax)}
}

func (a *announcer) put(r result) {
	if a.svc.opts.NoEvents {
		return
	}
	select {
	case a.ch <- r.outcome:
	default:
		a.svc.met.eventsLost.Inc()
	}
}

func (a *announcer) run(ctx context.Context) {
	for {
		var msgs []bus.Message
		select {
		case o := <-a.ch:
			msgs = append(msgs, a.message(&o))
		case <-ctx.Done():
			return
		}
		for more := true; more && len(msgs) < store.MaxBatch; {
			select {
			case o := <-a.ch:
				msgs = append(msgs, a.message(&o))
			default:
				more = false
			}
		}
		call, cancel := context.WithTimeout(ctx, eventsTimeout)
		if err := a.svc.opts.Bus.Publish(call, bus.Outcomes, msgs...); err != nil {
			a.svc.met.eventsLost.Add(float64(len(msgs)))
			a.svc.log.Debug().Err(err).Int("events", len(msgs)).Msg("outcomes not announced")
		}
		cancel()
	}
}

func (a *announcer) message(o *timer.Outcome) bus.Message {
	app := a.svc.book.app(o.Timer)
	payload, err := proto.Marshal(&carillonv1.Outcome{
		TimerId: int64(o.Timer), DueMs: o.DueMS, Series: o.Series, App: app, Kind: string(o.Kind), Reason: string(o.Reason),
		FinishedMs: o.FinishedMS, Attempts: o.Attempts, LatenessMs: o.LatenessMS, StatusCode: o.StatusCode, DurationMs: o.DurationMS,
	})
	if err != nil {
		a.svc.log.Error().Err(err).Msg("outcome not encoded")
	}
	return bus.Message{Key: app, Payload: payload, Properties: map[string]string{bus.PropFire: o.FireID.String(), bus.PropApp: app}}
}
