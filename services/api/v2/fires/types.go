package fires

import (
	"math"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
)

// FireBody is a fire, open or finished.
type FireBody struct {
	ID         string `json:"id" doc:"The fire's stable id, as callbacks carry it." example:"123456789012345-1900000000000"`
	TimerID    string `json:"timer_id"`
	Due        string `json:"due" format:"date-time" doc:"The nominal instant."`
	Cause      string `json:"cause" enum:"schedule,run_now,backfill,redrive" doc:"Why it exists."`
	Status     string `json:"status" enum:"open,delivered,failed,skipped,upcoming" doc:"What became of it so far."`
	Reason     string `json:"reason,omitempty" doc:"Why it was skipped or failed: inactive or paused when it was due, frozen, deleted, misfired, superseded, overlap, queue_full, cancelled, exhausted, not_retried, gave_up, gone or rejected."`
	Version    int32  `json:"version" doc:"Of the definition that it belongs to."`
	Attempts   int32  `json:"attempts" doc:"Attempts that have ended. A call that is under way is not counted."`
	WaitsFor   string `json:"waits_for,omitempty" enum:"run,executor,retry,turn,completion,limits,activation" doc:"Of an open fire: what it waits for."`
	NextRun    string `json:"next_run,omitempty" format:"date-time" doc:"open: when it is next called or checked; absent while its timer is not active."`
	FinishedAt string `json:"finished_at,omitempty" format:"date-time"`
	LatenessMS int64  `json:"lateness_ms" doc:"Start of the first attempt minus the planned instant."`
	StatusCode int32  `json:"status_code,omitempty" doc:"Of the last answer."`
	DurationMS int64  `json:"duration_ms,omitempty" doc:"Of the last attempt."`
	Failure    string `json:"failure,omitempty" doc:"Class of what went wrong in the last attempt: dns, connect, tls, timeout, status, rule, refused, reset, too_large, protocol, redirect, auth, invalid, cancelled, async or circuit."`
	RedrivenAs string `json:"redriven_as,omitempty" doc:"Of a failed fire: the fire of its latest redrive."`
	UntilDue   string `json:"until_due,omitempty" format:"date-time" doc:"A record of a skipped stretch: the last instant that it covers."`
	Count      int64  `json:"count" doc:"How many instants this record stands for; 1 but for a skipped stretch."`

	HopsBody
}

type attemptBody struct {
	N          int32  `json:"n" doc:"From 1."`
	StartedAt  string `json:"started_at" format:"date-time"`
	DurationMS int64  `json:"duration_ms"`
	StatusCode int32  `json:"status_code,omitempty" doc:"Absent where no answer came."`
	Failure    string `json:"failure,omitempty" doc:"Class of what went wrong."`
	Target     string `json:"target,omitempty" doc:"Which of several targets: its name, or its place from 1."`
	Error      string `json:"error,omitempty" doc:"Why it failed, in one line. If it was accepted: what of the answer could not be read."`
	Excerpt    string `json:"excerpt,omitempty" doc:"Start of the answer's body. Of a single target it is kept where the attempt failed or was not the first."`
}

type targetOutcomeBody struct {
	Index      int                     `json:"index" doc:"Its place among the timer's targets, from 0."`
	Target     string                  `json:"target" doc:"As attempts name it: its name, or its place from 1."`
	Kind       definition.CallableKind `json:"kind"`
	Outcome    string                  `json:"outcome" enum:"pending,delivered,failed,skipped" doc:"What became of it."`
	Attempts   int32                   `json:"attempts" doc:"Calls of it."`
	StatusCode int32                   `json:"status_code,omitempty" doc:"Of its last answer; absent where none came."`
	Failure    string                  `json:"failure,omitempty" doc:"Class of what went wrong in its last call."`
}

type firesBody struct {
	Items      []FireBody `json:"items" nullable:"false"`
	NextCursor string     `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

type fireDetailBody struct {
	FireBody

	SessionName string              `json:"session_name,omitempty" doc:"Name of the process that has or had the session. It is kept for a day after the session's end."`
	Timeline    []HopBody           `json:"timeline" nullable:"false" doc:"The life of the fire, in order of time."`
	Targets     []targetOutcomeBody `json:"targets,omitempty" nullable:"false" doc:"Of a timer that calls all of its targets: what became of each."`
	AttemptLog  []attemptBody       `json:"attempt_log" nullable:"false" doc:"Every attempt, one after the other; of several targets each call. An attempt that was accepted and not completed has two entries."`
}

var waitsFor = map[explain.Code]string{
	explain.Planned:           "run",
	explain.Overdue:           "run",
	explain.InProgress:        "executor",
	explain.WaitsForRetry:     "retry",
	explain.WaitsForTurn:      "turn",
	explain.WaitsForCompleted: "completion",
	explain.WaitsForLimits:    "limits",
	explain.WaitsForActive:    "activation",
}

// ShowOpen converts an open fire with the code that explanations give it.
func ShowOpen(f *timer.Fire, code explain.Code) FireBody {
	b := FireBody{
		ID:         f.FireID.String(),
		TimerID:    f.Timer.String(),
		Due:        input.AnyInstant(f.DueMS),
		Cause:      f.Cause.String(),
		Status:     "open",
		Version:    f.Version,
		Attempts:   f.Attempt,
		WaitsFor:   waitsFor[code],
		LatenessMS: f.FirstLatenessMS,
		Count:      1,
	}
	if code != explain.WaitsForActive {
		b.NextRun = input.Instant(f.RunAtMS)
	}
	b.HopsBody = showOpenHops(f)
	return b
}

// showUpcoming converts a fire that may not exist yet.
func showUpcoming(t *timer.Timer, dueMS int64) FireBody {
	id := timer.FireID{Timer: t.ID, DueMS: dueMS}
	return FireBody{
		ID:      id.String(),
		TimerID: t.ID.String(),
		Due:     input.Instant(dueMS),
		Cause:   timer.CauseSchedule.String(),
		Status:  stateUpcoming,
		Version: t.Version,
		NextRun: input.Instant(dueMS + schedule.Jitter(t.ID, dueMS, t.Definition.Schedule.Jitter)),
		Count:   1,
	}
}

// ShowOutcome converts a finished fire.
func ShowOutcome(o *timer.Outcome) FireBody {
	b := FireBody{
		ID:      o.FireID.String(),
		TimerID: o.Timer.String(),
		Due:     input.AnyInstant(o.DueMS),
		Cause:   o.Cause.String(),
		Status:  string(o.Kind),
		Reason: string(
			o.Reason,
		),
		Version:    o.Version,
		Attempts:   o.Attempts,
		FinishedAt: input.Instant(o.FinishedMS),
		LatenessMS: o.LatenessMS,
		StatusCode: o.StatusCode,
		DurationMS: o.DurationMS,
		Count:      max(o.Count, 1),
		Failure:    string(o.Failure),
		HopsBody:   showHops(o),
	}
	if o.Redriven != 0 {
		b.RedrivenAs = timer.FireID{Timer: o.Timer, DueMS: o.DueMS, Series: o.Redriven}.String()
	}
	if o.UntilMS > o.DueMS && o.UntilMS != math.MaxInt64 {
		b.UntilDue = input.Instant(o.UntilMS)
	}
	return b
}

func showAttempt(a *timer.Attempt) attemptBody {
	return attemptBody{
		N:          a.N,
		StartedAt:  input.Instant(a.StartMS),
		DurationMS: a.DurationMS,
		StatusCode: a.StatusCode,
		Failure:    string(a.Failure),
		Target:     a.Target,
		Error:      a.Error,
		Excerpt:    a.Excerpt,
	}
}
