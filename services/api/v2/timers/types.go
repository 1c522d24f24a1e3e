package timers

import (
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/schedules"
)

// The types of v2 are separate from the domain's, so that a change there does not change the API
// unnoticed. Ids are decimal strings, instants RFC 3339 in UTC with milliseconds, durations text
// such as "1m30s".

type newTimerBody struct {
	App         string                      `json:"app" minLength:"1" maxLength:"64" doc:"The app that owns the timer. carillon is Carillon's own: its timers can only be read." example:"shop"`
	Name        string                      `json:"name" minLength:"1" maxLength:"128" doc:"Unique among the app's timers." example:"send-invoices"`
	Schedule    definition.ScheduleBody     `json:"schedule"`
	Target      *definition.TargetBody      `json:"target,omitempty" doc:"The target that it calls. Give it or targets."`
	Targets     []definition.TargetBody     `json:"targets,omitempty" nullable:"false" maxItems:"8" doc:"The targets that it calls, if there are several."`
	Mode        string                      `json:"mode,omitempty" enum:"any,all" doc:"With targets: which of them are called."`
	Retry       *definition.RetryBody       `json:"retry,omitempty" doc:"What happens when an attempt fails."`
	Misfire     *definition.MisfireBody     `json:"misfire,omitempty" doc:"What happens to late fires."`
	Concurrency *definition.ConcurrencyBody `json:"concurrency,omitempty" doc:"What happens while the fire before is not finished."`
	Priority    string                      `json:"priority,omitempty" enum:"high,normal,low" doc:"Which fires go first where not all can run; normal by default."`
	Labels      map[string]string           `json:"labels,omitempty" doc:"For people and templates; at most 32, names and values at most 256 bytes each."`
	Metrics     bool                        `json:"metrics,omitempty" doc:"Executors have metrics of this timer, by its name: carillon_timer_fires_total and carillon_timer_lateness_seconds. At most 1,000 timers of the deployment have them; else 422."`
	Status      string                      `json:"status,omitempty" enum:"active,inactive" doc:"A new timer is inactive where it is left out; one that is there stays as it is. active leaves a paused timer paused, because the same definition is sent again and again: resume the timer, or PATCH its status. inactive ends a pause."`
}

type changeBody struct {
	Status      string                      `json:"status,omitempty" enum:"active,inactive" doc:"Either ends a pause: unlike a PUT, a PATCH asks for this status now."`
	Schedule    *definition.ScheduleBody    `json:"schedule,omitempty" doc:"Replaces the schedule. The misfire policy stays, also where it is the default of another kind."`
	Target      *definition.TargetBody      `json:"target,omitempty" doc:"Replaces the target or targets. Secrets that are REDACTED stay as they are."`
	Targets     *[]definition.TargetBody    `json:"targets,omitempty" maxItems:"8" doc:"Replaces the target or targets. Secrets that are REDACTED stay as they are."`
	Mode        string                      `json:"mode,omitempty" enum:"any,all" doc:"With targets; the mode that it has where it is left out."`
	Retry       *definition.RetryBody       `json:"retry,omitempty" doc:"Replaces the retries; what is left out has its default."`
	Misfire     *definition.MisfireBody     `json:"misfire,omitempty" doc:"Replaces the policy; what is left out has its default."`
	Concurrency *definition.ConcurrencyBody `json:"concurrency,omitempty" doc:"Replaces the policy; what is left out has its default."`
	Priority    string                      `json:"priority,omitempty" enum:"high,normal,low"`
	Labels      *map[string]string          `json:"labels,omitempty" doc:"Replaces all labels."`
	Metrics     *bool                       `json:"metrics,omitempty" doc:"Whether executors have metrics of this timer. An edit begins them anew. At most 1,000 timers of the deployment have them; else 422."`
	IfVersion   int32                       `json:"if_version,omitempty" minimum:"1" doc:"Change it only if this is its version; else 409."`
}

type pausedBody struct {
	Reason string `json:"reason,omitempty" doc:"Why."`
	Until  string `json:"until,omitempty" format:"date-time" doc:"When it is activated again; absent if it must be resumed by hand."`
}

type timerBody struct {
	ID           string                     `json:"id" pattern:"^[0-9]{1,16}$" example:"123456789012345"`
	App          string                     `json:"app"`
	Name         string                     `json:"name"`
	Status       string                     `json:"status" enum:"active,inactive,paused,deleted"`
	Paused       *pausedBody                `json:"paused,omitempty" doc:"Of a paused timer."`
	Version      int32                      `json:"version" doc:"Of the definition, from 1. Every edit makes a new one."`
	Unreadable   string                     `json:"unreadable,omitempty" doc:"Why the stored definition cannot be read: a newer release wrote it, or it is damaged. Its parts are empty here. The timer makes no fires, and those that are open wait. Replace the definition with a PUT, or use the release that wrote it."`
	Schedule     definition.ScheduleBody    `json:"schedule"`
	Target       *definition.ShownTarget    `json:"target,omitempty" doc:"Absent where there are targets."`
	Targets      []*definition.ShownTarget  `json:"targets,omitempty" nullable:"false"`
	Mode         string                     `json:"mode,omitempty" enum:"any,all"`
	Retry        definition.RetryBody       `json:"retry"`
	Misfire      definition.MisfireBody     `json:"misfire"`
	Concurrency  definition.ConcurrencyBody `json:"concurrency"`
	Priority     string                     `json:"priority" enum:"high,normal,low"`
	Labels       map[string]string          `json:"labels,omitempty"`
	Metrics      bool                       `json:"metrics" doc:"Whether executors have metrics of this timer."`
	FiresCreated int64                      `json:"fires_created" doc:"Fires of the schedule made so far, those of the coming hour among them: what max_fires counts. With max_fires, those that were skipped are not counted."`
	NextDue      string                     `json:"next_due,omitempty" format:"date-time" doc:"The next instant at which it is due; absent where there is none, the timer is not active, or it follows a fire that is not finished."`
	LastFired    string                     `json:"last_fired,omitempty" format:"date-time" doc:"In a list: when its latest finished fire was due; absent where none is kept."`
	LastOutcome  string                     `json:"last_outcome,omitempty" enum:"delivered,failed,skipped" doc:"In a list: the outcome of that fire."`
	ActiveSince  string                     `json:"active_since,omitempty" format:"date-time" doc:"When it was last activated."`
	CreatedAt    string                     `json:"created_at" format:"date-time"`
	UpdatedAt    string                     `json:"updated_at" format:"date-time"`
	Warnings     []schedules.WarningBody    `json:"warnings,omitempty" nullable:"false" doc:"In the answer to a create, a put and a change: what the timer will not do as one may expect. It is never due (again), as its end has passed, its calendars exclude every instant or max_fires is reached; one of its cron expressions never is; or an instant that has passed makes it due at once. The request was done all the same."`
	DryRun       bool                       `json:"dry_run,omitempty" doc:"Nothing was written. The id of a timer that does not exist is 0."`
	Upcoming     []string                   `json:"upcoming,omitempty" nullable:"false" doc:"With dry_run: its next instants while it is active, at most 10."`
}

type timersBody struct {
	Items          []timerBody `json:"items" nullable:"false"`
	NextCursor     string      `json:"next_cursor" doc:"Pass it as cursor, with the same parameters, for the next page; empty on the last one. A page may have fewer timers than the limit, or none, and still not be the last: one request examines a bounded number of timers."`
	Total          *int        `json:"total,omitempty" doc:"With count: how many timers the filter selects, up to 10,000."`
	TotalIsMinimum bool        `json:"total_is_minimum,omitempty" doc:"With count: there may be more than total. There are more than 10,000, or finding out would have examined too many timers."`
}

// setLast sets the latest outcome. The zero outcome is none.
func (b *timerBody) setLast(o timer.Outcome) {
	if b.LastOutcome = string(o.Kind); b.LastOutcome != "" {
		b.LastFired = input.Due(o.DueMS)
	}
}

// showTimer converts a timer. next is its next due instant: see nextDue.
func showTimer(t *timer.Timer, next int64) timerBody {
	d := &t.Definition
	b := timerBody{
		ID:      t.ID.String(),
		App:     t.App,
		Name:    t.Name,
		Status:  string(t.Status),
		Version: t.Version,

		Unreadable: d.Unreadable,

		Schedule: definition.ShowSchedule(&d.Schedule),
		Mode: string(
			d.Mode,
		),
		Priority: definition.OrElse(string(d.Priority), string(timer.PriorityNormal)),
		Labels:   d.Labels,
		Metrics:  d.Metrics,
		Retry: definition.ShowRetry(
			&d.Retry,
		),
		Misfire:      definition.ShowMisfire(d),
		Concurrency:  definition.ShowConcurrency(d),
		FiresCreated: t.FiresCreated,
		NextDue: input.Instant(
			next,
		),
		ActiveSince: input.Instant(t.ActiveSinceMS),
		CreatedAt:   input.Instant(t.CreatedMS),
		UpdatedAt:   input.Instant(t.UpdatedMS),
	}
	if !d.Several() {
		b.Target = definition.ShowTarget(&d.Target)
	}
	for i := range d.Targets {
		b.Targets = append(b.Targets, definition.ShowTarget(&d.Targets[i]))
	}
	if t.Status == timer.StatusPaused {
		b.Paused = &pausedBody{Reason: t.PauseReason, Until: input.Instant(t.PausedUntilMS)}
	}
	return b
}
