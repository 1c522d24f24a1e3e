package api

import (
	"math"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The types of v2 are separate from the domain's, so that a change there does not change the API
// unnoticed. Ids are decimal strings, instants RFC 3339 in UTC with milliseconds, durations text
// such as "1m30s".

type newTimerBody struct {
	App         string            `json:"app" minLength:"1" maxLength:"64" doc:"The app that owns the timer. carillon is Carillon's own: its timers can only be read." example:"shop"`
	Name        string            `json:"name" minLength:"1" maxLength:"128" doc:"Unique among the app's timers." example:"send-invoices"`
	Schedule    scheduleBody      `json:"schedule"`
	Target      *targetBody       `json:"target,omitempty" doc:"The target that it calls. Give it or targets."`
	Targets     []targetBody      `json:"targets,omitempty" nullable:"false" maxItems:"8" doc:"The targets that it calls, if there are several."`
	Mode        string            `json:"mode,omitempty" enum:"any,all" doc:"With targets: which of them are called."`
	Retry       *retryBody        `json:"retry,omitempty" doc:"What happens when an attempt fails."`
	Misfire     *misfireBody      `json:"misfire,omitempty" doc:"What happens to late fires."`
	Concurrency *concurrencyBody  `json:"concurrency,omitempty" doc:"What happens while the fire before is not finished."`
	Priority    string            `json:"priority,omitempty" enum:"high,normal,low" doc:"Which fires go first where not all can run; normal by default."`
	Labels      map[string]string `json:"labels,omitempty" doc:"For people and templates; at most 32, names and values at most 256 bytes each."`
	Status      string            `json:"status,omitempty" enum:"active,inactive" doc:"A new timer is inactive where it is left out; one that is there stays as it is."`
}

type changeBody struct {
	Status      string             `json:"status,omitempty" enum:"active,inactive"`
	Schedule    *scheduleBody      `json:"schedule,omitempty" doc:"Replaces the schedule."`
	Target      *targetBody        `json:"target,omitempty" doc:"Replaces the target or targets. Secrets that are REDACTED stay as they are."`
	Targets     *[]targetBody      `json:"targets,omitempty" maxItems:"8" doc:"Replaces the target or targets. Secrets that are REDACTED stay as they are."`
	Mode        string             `json:"mode,omitempty" enum:"any,all" doc:"With targets; the mode that it has where it is left out."`
	Retry       *retryBody         `json:"retry,omitempty" doc:"Replaces the retries; what is left out has its default."`
	Misfire     *misfireBody       `json:"misfire,omitempty" doc:"Replaces the policy; what is left out has its default."`
	Concurrency *concurrencyBody   `json:"concurrency,omitempty" doc:"Replaces the policy; what is left out has its default."`
	Priority    string             `json:"priority,omitempty" enum:"high,normal,low"`
	Labels      *map[string]string `json:"labels,omitempty" doc:"Replaces all labels."`
	IfVersion   int32              `json:"if_version,omitempty" minimum:"1" doc:"Change it only if this is its version; else 409."`
}

type pausedBody struct {
	Reason string `json:"reason,omitempty" doc:"Why."`
	Until  string `json:"until,omitempty" format:"date-time" doc:"When it is activated again; absent if it must be resumed by hand."`
}

type timerBody struct {
	ID           string            `json:"id" pattern:"^[0-9]{1,16}$" example:"123456789012345"`
	App          string            `json:"app"`
	Name         string            `json:"name"`
	Status       string            `json:"status" enum:"active,inactive,paused,deleted"`
	Paused       *pausedBody       `json:"paused,omitempty" doc:"Of a paused timer."`
	Version      int32             `json:"version" doc:"Of the definition, from 1. Every edit makes a new one."`
	Schedule     scheduleBody      `json:"schedule"`
	Target       *shownTarget      `json:"target,omitempty" doc:"Absent where there are targets."`
	Targets      []*shownTarget    `json:"targets,omitempty" nullable:"false"`
	Mode         string            `json:"mode,omitempty" enum:"any,all"`
	Retry        retryBody         `json:"retry"`
	Misfire      misfireBody       `json:"misfire"`
	Concurrency  concurrencyBody   `json:"concurrency"`
	Priority     string            `json:"priority" enum:"high,normal,low"`
	Labels       map[string]string `json:"labels,omitempty"`
	FiresCreated int64             `json:"fires_created" doc:"Fires of the schedule made so far, those of the coming hour among them: what max_fires counts. With max_fires, those that were skipped are not counted."`
	NextDue      string            `json:"next_due,omitempty" format:"date-time" doc:"The next instant at which it is due; absent where there is none, the timer is not active, or it follows a fire that is not finished."`
	ActiveSince  string            `json:"active_since,omitempty" format:"date-time" doc:"When it was last activated."`
	CreatedAt    string            `json:"created_at" format:"date-time"`
	UpdatedAt    string            `json:"updated_at" format:"date-time"`
	Warnings     []warningBody     `json:"warnings,omitempty" nullable:"false" doc:"In the answer to a create, a put and a change: what the timer will not do as one may expect. It is never due (again), as its end has passed, its calendars exclude every instant or max_fires is reached; one of its cron expressions never is; or an instant that has passed makes it due at once. The request was done all the same."`
}

type timersBody struct {
	Items      []timerBody `json:"items" nullable:"false"`
	NextCursor string      `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

// FireBody is a fire, open or finished.
type FireBody struct {
	ID         string `json:"id" doc:"The fire's stable id, as callbacks carry it." example:"123456789012345-1900000000000"`
	TimerID    string `json:"timer_id"`
	Due        string `json:"due" format:"date-time" doc:"The nominal instant."`
	Cause      string `json:"cause" enum:"schedule,run_now,backfill,redrive" doc:"Why it exists."`
	Status     string `json:"status" enum:"open,delivered,failed,skipped,upcoming" doc:"What became of it so far."`
	Reason     string `json:"reason,omitempty" doc:"Why it was skipped or failed: inactive or paused when it was due, frozen, deleted, misfired, superseded, overlap, queue_full, cancelled, exhausted, not_retried, gave_up, gone or rejected."`
	Version    int32  `json:"version" doc:"Of the definition that it belongs to."`
	Attempts   int32  `json:"attempts" doc:"Attempts made."`
	WaitsFor   string `json:"waits_for,omitempty" enum:"run,retry,turn,completion,limits,activation" doc:"Of an open fire: what it waits for."`
	NextRun    string `json:"next_run,omitempty" format:"date-time" doc:"open: when it is next called or checked; absent while its timer is not active."`
	FinishedAt string `json:"finished_at,omitempty" format:"date-time"`
	LatenessMS int64  `json:"lateness_ms" doc:"Start of the first attempt minus the planned instant."`
	StatusCode int32  `json:"status_code,omitempty" doc:"Of the last answer."`
	DurationMS int64  `json:"duration_ms,omitempty" doc:"Of the last attempt."`
	Failure    string `json:"failure,omitempty" doc:"Class of what went wrong in the last attempt: dns, connect, tls, timeout, status, rule, refused, reset, too_large, protocol, redirect, auth, invalid, cancelled, async or circuit."`
	RedrivenAs string `json:"redriven_as,omitempty" doc:"Of a failed fire: the fire of its latest redrive."`
	UntilDue   string `json:"until_due,omitempty" format:"date-time" doc:"A record of a skipped stretch: the last instant that it covers."`
	Count      int64  `json:"count" doc:"How many instants this record stands for; 1 but for a skipped stretch."`
}

type attemptBody struct {
	N          int32  `json:"n" doc:"From 1."`
	StartedAt  string `json:"started_at" format:"date-time"`
	DurationMS int64  `json:"duration_ms"`
	StatusCode int32  `json:"status_code,omitempty" doc:"Absent where no answer came."`
	Failure    string `json:"failure,omitempty" doc:"Class of what went wrong."`
	Target     string `json:"target,omitempty" doc:"Which of several targets: its name, or its place from 1."`
	Error      string `json:"error,omitempty"`
	Excerpt    string `json:"excerpt,omitempty" doc:"Start of the answer's body. Of a single target it is kept where the attempt failed or was not the first."`
}

type targetOutcomeBody struct {
	Index      int    `json:"index" doc:"Its place among the timer's targets, from 0."`
	Target     string `json:"target" doc:"As attempts name it: its name, or its place from 1."`
	Kind       string `json:"kind" enum:"http,grpc,pulsar"`
	Outcome    string `json:"outcome" enum:"pending,delivered,failed,skipped" doc:"What became of it."`
	Attempts   int32  `json:"attempts" doc:"Calls of it."`
	StatusCode int32  `json:"status_code,omitempty" doc:"Of its last answer; absent where none came."`
	Failure    string `json:"failure,omitempty" doc:"Class of what went wrong in its last call."`
}

type firesBody struct {
	Items      []FireBody `json:"items" nullable:"false"`
	NextCursor string     `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

type fireDetailBody struct {
	FireBody

	Targets    []targetOutcomeBody `json:"targets,omitempty" nullable:"false" doc:"Of a timer that calls all of its targets: what became of each."`
	AttemptLog []attemptBody       `json:"attempt_log" nullable:"false" doc:"Every attempt, one after the other; of several targets each call."`
}

const instantFormat = "2006-01-02T15:04:05.000Z"

// instant formats unix milliseconds; 0 and NeverMS are empty.
func instant(ms int64) string {
	if ms == 0 || ms == timer.NeverMS {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(instantFormat)
}

// showTimer converts a timer. next is its next due instant: see nextDue.
func showTimer(t *timer.Timer, next int64) timerBody {
	d := &t.Definition
	b := timerBody{
		ID:       t.ID.String(),
		App:      t.App,
		Name:     t.Name,
		Status:   string(t.Status),
		Version:  t.Version,
		Schedule: showSchedule(&d.Schedule),
		Mode: string(
			d.Mode,
		),
		Priority: orElse(string(d.Priority), string(timer.PriorityNormal)),
		Labels:   d.Labels,
		Retry: showRetry(
			&d.Retry,
		),
		Misfire:      showMisfire(d),
		Concurrency:  showConcurrency(d),
		FiresCreated: t.FiresCreated,
		NextDue: instant(
			next,
		),
		ActiveSince: instant(t.ActiveSinceMS),
		CreatedAt:   instant(t.CreatedMS),
		UpdatedAt:   instant(t.UpdatedMS),
	}
	if !d.Several() {
		b.Target = showTarget(&d.Target)
	}
	for i := range d.Targets {
		b.Targets = append(b.Targets, showTarget(&d.Targets[i]))
	}
	if t.Status == timer.StatusPaused {
		b.Paused = &pausedBody{Reason: t.PauseReason, Until: instant(t.PausedUntilMS)}
	}
	return b
}

var waitsFor = map[timer.FireState]string{
	timer.FireReady:       "run",
	timer.FireRetrying:    "retry",
	timer.FireAsyncFailed: "retry",
	timer.FireWaiting:     "turn",
	timer.FireAccepted:    "completion",
	timer.FireDeferred:    "limits",
}

func showOpen(f *timer.Fire) FireBody {
	b := FireBody{
		ID:         f.FireID.String(),
		TimerID:    f.Timer.String(),
		Due:        instant(f.DueMS),
		Cause:      f.Cause.String(),
		Status:     "open",
		Version:    f.Version,
		Attempts:   f.Attempt,
		WaitsFor:   waitsFor[f.State],
		LatenessMS: f.FirstLatenessMS,
		Count:      1,
	}
	if f.RunAtMS == timer.DeferredMS {
		b.WaitsFor = "activation"
	} else {
		b.NextRun = instant(f.RunAtMS)
	}
	return b
}

// showUpcoming converts a fire that may not exist yet.
func showUpcoming(t *timer.Timer, dueMS int64) FireBody {
	id := timer.FireID{Timer: t.ID, DueMS: dueMS}
	return FireBody{
		ID:      id.String(),
		TimerID: t.ID.String(),
		Due:     instant(dueMS),
		Cause:   timer.CauseSchedule.String(),
		Status:  stateUpcoming,
		Version: t.Version,
		NextRun: instant(dueMS + schedule.Jitter(t.ID, dueMS, t.Definition.Schedule.Jitter)),
		Count:   1,
	}
}

func showOutcome(o *timer.Outcome) FireBody {
	b := FireBody{
		ID:      o.FireID.String(),
		TimerID: o.Timer.String(),
		Due:     instant(o.DueMS),
		Cause:   o.Cause.String(),
		Status:  string(o.Kind),
		Reason: string(
			o.Reason,
		),
		Version:    o.Version,
		Attempts:   o.Attempts,
		FinishedAt: instant(o.FinishedMS),
		LatenessMS: o.LatenessMS,
		StatusCode: o.StatusCode,
		DurationMS: o.DurationMS,
		Count:      max(o.Count, 1),
		Failure:    string(o.Failure),
	}
	if o.Redriven != 0 {
		b.RedrivenAs = timer.FireID{Timer: o.Timer, DueMS: o.DueMS, Series: o.Redriven}.String()
	}
	if o.UntilMS > o.DueMS && o.UntilMS != math.MaxInt64 {
		b.UntilDue = instant(o.UntilMS)
	}
	return b
}

func showAttempt(a *timer.Attempt) attemptBody {
	return attemptBody{
		N:          a.N,
		StartedAt:  instant(a.StartMS),
		DurationMS: a.DurationMS,
		StatusCode: a.StatusCode,
		Failure:    string(a.Failure),
		Target:     a.Target,
		Error:      a.Error,
		Excerpt:    a.Excerpt,
	}
}
