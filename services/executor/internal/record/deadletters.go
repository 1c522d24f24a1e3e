package record

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	dlqTimeout = 5 * time.Second
)

// sendToDLQ publishes the dead letters of failed fires, before their outcomes are recorded. A crash
// in between repeats the last attempt and the message, with the same fire id. In the other order the
// message would be lost. It only notifies: lists and redrives read the outcomes.
func (r *Recorder) sendToDLQ(ctx context.Context, rs []*result) error {
	var msgs []bus.Message
	for i := range rs {
		o := &rs[i].outcome
		if o.Kind != timer.Failed {
			continue
		}
		app := rs[i].entry.App
		d := &carillonv1.DeadTask{
			Task: taskOf(&o.Fire), App: app, Reason: string(o.Reason),
			Attempts: o.Attempts, StatusCode: o.StatusCode, LastError: rs[i].entry.LastError,
		}
		payload, err := proto.Marshal(d)
		if err != nil {
			//nolint:wrapcheck // cannot fail: all texts are validated
			return err
		}
		msgs = append(
			msgs,
			bus.Message{Key: app, Payload: payload, Properties: map[string]string{
				bus.PropReason: string(
					o.Reason,
				),
				bus.PropFire:  o.FireID.String(),
				bus.PropTimer: o.Timer.String(),
				bus.PropApp:   app,
			}},
		)
	}
	if len(msgs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dlqTimeout)
	defer cancel()
	//nolint:wrapcheck // the bus names the topic
	return r.opts.Bus.Publish(ctx, bus.TasksDead, msgs...)
}

// taskOf returns a fire as the message that package taskwire encodes.
func taskOf(f *timer.Fire) *carillonv1.Task {
	return &carillonv1.Task{
		TimerId: int64(
			f.Timer,
		),
		DueMs:   f.DueMS,
		Series:  f.Series,
		RunAtMs: f.RunAtMS,
		Bucket:  f.Bucket,
		AppId:   f.AppID,
		Version: f.Version,
		Epoch:   f.Epoch,
		Cause: uint32(
			f.Cause,
		),
		State:    uint32(f.State),
		Attempt:  f.Attempt,
		Rev:      f.Rev,
		LateMs:   f.FirstLatenessMS,
		Priority: uint32(f.PriorityLevel),
	}
}
