package outcomeevent

import (
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// deadLetter returns the message about a failed fire. It only notifies: lists and redrives read the
// outcomes.
func deadLetter(o *timer.Outcome, app, lastError string) bus.Message {
	// Its texts are constants, a validated app name, and an error that is valid UTF-8: cannot fail.
	payload, _ := proto.Marshal(&carillonv1.DeadTask{
		Task: taskOf(&o.Fire), App: app, Reason: string(o.Reason),
		Attempts: o.Attempts, StatusCode: o.StatusCode, LastError: lastError,
	})
	return bus.Message{Key: app, Payload: payload, Properties: map[string]string{
		bus.PropReason: string(o.Reason),
		bus.PropFire:   o.FireID.String(),
		bus.PropTimer:  o.Timer.String(),
		bus.PropApp:    app,
	}}
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
