package api

import (
	"math"
	"time"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The shapes of v2. They are apart from the domain's, so that a change there does not change the API unseen. Ids are decimal
// strings, instants RFC 3339 in UTC with milliseconds, durations text such as "1m30s".

type scheduleBody struct {
	Kind  string   `json:"kind" enum:"cron,at,delay" doc:"How the instants are named."`
	Specs []string `json:"specs,omitempty" nullable:"false" maxItems:"16" doc:"cron: expressions of 5, 6 (seconds first) or 7 (with year) fields, or @hourly, @every 90s and the like. Instants that coincide are one." example:"[\"*/5 * * * *\"]"`
	Zone  string   `json:"zone,omitempty" doc:"cron: IANA time zone; the deployment's default (UTC) where it is left out." example:"Europe/Berlin"`
	At    string   `json:"at,omitempty" format:"date-time" doc:"at: the instant. One in the past is due at once." example:"2030-01-31T09:00:00Z"`
	Delay string   `json:"delay,omitempty" doc:"delay: how long after the first activation." example:"90s"`
}

type targetBody struct {
	Kind    string              `json:"kind,omitempty" enum:"http" default:"http" doc:"The protocol."`
	URL     string              `json:"url" doc:"Absolute http or https URL, at most 2048 bytes." example:"https://example.com/ring"`
	Method  string              `json:"method,omitempty" default:"POST" doc:"GET, POST, PUT, PATCH or DELETE."`
	Headers map[string][]string `json:"headers,omitempty" doc:"Name to list of values; at most 64 names and 8 KiB."`
	Body    string              `json:"body,omitempty" doc:"Sent byte for byte; at most 256 KiB."`
}

// shownTarget is a target as it is answered: Carillon's own timers have kinds that nobody can ask for.
type shownTarget struct {
	Kind    string              `json:"kind" enum:"http,canary" doc:"The protocol; canary is Carillon's own and calls nobody."`
	URL     string              `json:"url" doc:"Empty for a canary." example:"https://example.com/ring"`
	Method  string              `json:"method,omitempty"`
	Headers map[string][]string `json:"headers,omitempty" doc:"Name to list of values."`
	Body    string              `json:"body,omitempty"`
}

type retryBody struct {
	Attempts *int     `json:"attempts,omitempty" doc:"Attempts in all, 1 to 20; 3 by default."`
	Wait     string   `json:"wait,omitempty" doc:"Before the second attempt; 1s by default." example:"1s"`
	Factor   *float64 `json:"factor,omitempty" doc:"Each further wait is so many times longer, 1 to 10; 2 by default."`
	MaxWait  string   `json:"max_wait,omitempty" doc:"No wait is longer, at most 24h; 1h by default." example:"1h"`
	Timeout  string   `json:"timeout,omitempty" doc:"Of one attempt, 10ms to 5m; 5s by default." example:"5s"`
}

type newTimerBody struct {
	App      string       `json:"app" minLength:"1" maxLength:"64" doc:"The app that owns the timer. carillon is Carillon's own: its timers can only be read." example:"shop"`
	Name     string       `json:"name" minLength:"1" maxLength:"128" doc:"Unique among the app's timers." example:"send-invoices"`
	Schedule scheduleBody `json:"schedule"`
	Target   targetBody   `json:"target"`
	Retry    *retryBody   `json:"retry,omitempty" doc:"What happens when an attempt fails."`
	Status   string       `json:"status,omitempty" enum:"active,inactive" default:"inactive" doc:"An active timer rings; an inactive one waits to be activated."`
}

type timerBody struct {
	ID          string       `json:"id" pattern:"^[0-9]{1,16}$" example:"123456789012345"`
	App         string       `json:"app"`
	Name        string       `json:"name"`
	Status      string       `json:"status" enum:"active,inactive,deleted"`
	Version     int32        `json:"version" doc:"Of the definition, from 1."`
	Schedule    scheduleBody `json:"schedule"`
	Target      shownTarget  `json:"target"`
	Retry       retryBody    `json:"retry"`
	NextDue     string       `json:"next_due,omitempty" format:"date-time" doc:"The next instant at which it is due; absent where there is none or the timer is not active."`
	ActiveSince string       `json:"active_since,omitempty" format:"date-time" doc:"When it was last activated."`
	CreatedAt   string       `json:"created_at" format:"date-time"`
	UpdatedAt   string       `json:"updated_at" format:"date-time"`
}

type timersBody struct {
	Items      []timerBody `json:"items" nullable:"false"`
	NextCursor string      `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

type statusBody struct {
	Status string `json:"status" enum:"active,inactive"`
}

// FireBody is a fire, open or finished.
type FireBody struct {
	ID         string `json:"id" doc:"The fire's stable id, as callbacks carry it." example:"123456789012345-1900000000000"`
	TimerID    string `json:"timer_id"`
	Due        string `json:"due" format:"date-time" doc:"The nominal instant."`
	Status     string `json:"status" enum:"open,delivered,failed,skipped" doc:"open: without outcome yet."`
	Reason     string `json:"reason,omitempty" doc:"Why it was skipped or failed."`
	Version    int32  `json:"version" doc:"Of the definition that it belongs to."`
	Attempts   int32  `json:"attempts" doc:"Attempts made."`
	NextRun    string `json:"next_run,omitempty" format:"date-time" doc:"open: when it is to be called next."`
	FinishedAt string `json:"finished_at,omitempty" format:"date-time"`
	LatenessMS int64  `json:"lateness_ms" doc:"Start of the first attempt minus the planned instant."`
	StatusCode int32  `json:"status_code,omitempty" doc:"Of the last answer."`
	DurationMS int64  `json:"duration_ms,omitempty" doc:"Of the last attempt."`
	UntilDue   string `json:"until_due,omitempty" format:"date-time" doc:"A record of a skipped stretch: the last instant that it covers."`
	Count      int64  `json:"count" doc:"How many instants this record stands for; 1 but for a skipped stretch."`
}

type attemptBody struct {
	N          int32  `json:"n" doc:"From 1."`
	StartedAt  string `json:"started_at" format:"date-time"`
	DurationMS int64  `json:"duration_ms"`
	StatusCode int32  `json:"status_code,omitempty" doc:"Absent where no answer came."`
	Error      string `json:"error,omitempty"`
	Excerpt    string `json:"excerpt,omitempty" doc:"Start of the answer's body."`
}

type firesBody struct {
	Items      []FireBody `json:"items" nullable:"false"`
	NextCursor string     `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

type fireDetailBody struct {
	FireBody

	AttemptLog []attemptBody `json:"attempt_log" nullable:"false" doc:"Attempts as far as they were recorded one by one."`
}

const instantFormat = "2006-01-02T15:04:05.000Z"

// instant shows unix milliseconds; 0 and never are left out.
func instant(ms int64) string {
	if ms == 0 || ms == timer.NeverMS {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(instantFormat)
}

func showTimer(t *timer.Timer, now time.Time) timerBody {
	d := &t.Definition
	b := timerBody{
		ID: t.ID.String(), App: t.App, Name: t.Name, Status: string(t.Status), Version: t.Version,
		Schedule: scheduleBody{Kind: string(d.Schedule.Kind), Specs: d.Schedule.Specs, Zone: d.Schedule.Zone},
		Target: shownTarget{
			Kind: string(d.Target.Kind), URL: d.Target.URL, Method: d.Target.Method, Headers: d.Target.Headers, Body: d.Target.Body,
		},
		Retry: retryBody{
			Attempts: &d.Retry.Attempts, Wait: showDuration(d.Retry.Wait), Factor: &d.Retry.Factor,
			MaxWait: showDuration(d.Retry.MaxWait), Timeout: showDuration(d.Retry.Timeout),
		},
		NextDue: instant(nextDue(t, now.UnixMilli())), ActiveSince: instant(t.ActiveSinceMS),
		CreatedAt: instant(t.CreatedMS), UpdatedAt: instant(t.UpdatedMS),
	}
	if at := d.Schedule.At; at != nil {
		b.Schedule.At = at.UTC().Format(time.RFC3339Nano)
	}
	if d.Schedule.Delay != 0 {
		b.Schedule.Delay = showDuration(d.Schedule.Delay)
	}
	return b
}

func showDuration(d timer.Duration) string { return time.Duration(d).String() }

// nextDue returns the first instant after now at which an active timer is due. t.NextDueMS says how far the timer is expanded,
// which is about an hour further; only for a one-shot that is not expanded yet the two are the same.
func nextDue(t *timer.Timer, nowMS int64) int64 {
	if t.Status != timer.StatusActive {
		return timer.NeverMS
	}
	if t.NextDueMS != timer.NeverMS && t.Definition.Schedule.Kind != timer.KindCron {
		return t.NextDueMS
	}
	p, err := schedule.Parse(t.Definition.Schedule, schedule.Inputs{Timer: t.ID})
	if err != nil {
		return timer.NeverMS // the migrator tells why
	}
	if t.Definition.Schedule.Kind == timer.KindCron {
		return p.Next(max(nowMS, t.ActiveSinceMS-1), t.CreatedMS)
	}
	if t.ActiveEpoch > 1 {
		return timer.NeverMS // its one instant belongs to an earlier activation
	}
	return p.Next(nowMS, t.ActiveSinceMS)
}

func showOpen(f *timer.Fire) FireBody {
	return FireBody{
		ID: f.FireID.String(), TimerID: f.Timer.String(), Due: instant(f.DueMS), Status: "open", Version: f.Version,
		Attempts: f.Attempt, NextRun: instant(f.RunMS), LatenessMS: f.LateMS, Count: 1,
	}
}

func showOutcome(o *timer.Outcome) FireBody {
	b := FireBody{
		ID: o.FireID.String(), TimerID: o.Timer.String(), Due: instant(o.DueMS), Status: string(o.Kind), Reason: string(o.Reason),
		Version: o.Version, Attempts: o.Attempts, FinishedAt: instant(o.FinishedMS), LatenessMS: o.LatenessMS,
		StatusCode: o.StatusCode, DurationMS: o.DurationMS, Count: max(o.Count, 1),
	}
	if o.UntilMS > o.DueMS && o.UntilMS != math.MaxInt64 {
		b.UntilDue = instant(o.UntilMS)
	}
	return b
}

func showAttempt(a *timer.Attempt) attemptBody {
	return attemptBody{
		N: a.N, StartedAt: instant(a.StartMS), DurationMS: a.DurationMS, StatusCode: a.StatusCode, Error: a.Error, Excerpt: a.Excerpt,
	}
}
