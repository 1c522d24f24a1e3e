package jobs

import (
	"encoding/json"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api/input"
)

type filterBody struct {
	Labels       string `json:"labels,omitempty" minLength:"1" maxLength:"4096" doc:"Only timers whose labels meet all requirements: team=pay,env!=dev,tier in (a,b),!legacy." example:"team=pay"`
	Status       string `json:"status,omitempty" enum:"active,inactive,paused" doc:"Only timers of this status. Where it is left out, pause takes active timers, resume paused ones, and the others all."`
	NamePrefix   string `json:"name_prefix,omitempty" minLength:"1" maxLength:"128" doc:"Only timers whose name begins so."`
	NameContains string `json:"name_contains,omitempty" minLength:"1" maxLength:"128" doc:"Only timers whose name contains this."`
	TargetHost   string `json:"target_host,omitempty" minLength:"1" maxLength:"255" doc:"Only timers with a target at this host, without its port." example:"example.com"`
}

type startBody struct {
	Action       string            `json:"action" enum:"pause,resume,delete,run,relabel" doc:"What is done to each timer."`
	Filter       filterBody        `json:"filter,omitzero" doc:"Which timers."`
	All          bool              `json:"all,omitempty" doc:"Required for an empty filter, which selects every timer of the app."`
	Reason       string            `json:"reason,omitempty" maxLength:"256" doc:"Of pause: why; shown until they are resumed."`
	Until        string            `json:"until,omitempty" format:"date-time" doc:"Of pause: when they are activated again by themselves, from now to 2199; never where it is left out."`
	SetLabels    map[string]string `json:"set_labels,omitempty" doc:"Of relabel: labels that they get; at most 32, names and values at most 256 bytes each."`
	RemoveLabels []string          `json:"remove_labels,omitempty" nullable:"false" maxItems:"32" doc:"Of relabel: names of labels that they lose."`
}

type jobBody struct {
	ID           string            `json:"id,omitempty" doc:"Also the series of the fires of run. Absent in the answer to a dry run."`
	App          string            `json:"app"`
	Action       string            `json:"action" enum:"pause,resume,delete,run,relabel,delete_app"`
	Filter       filterBody        `json:"filter"`
	Reason       string            `json:"reason,omitempty" doc:"Of pause."`
	Until        string            `json:"until,omitempty" format:"date-time" doc:"Of pause."`
	SetLabels    map[string]string `json:"set_labels,omitempty" doc:"Of relabel."`
	RemoveLabels []string          `json:"remove_labels,omitempty" nullable:"false" doc:"Of relabel."`

	Status     string         `json:"status,omitempty" enum:"running,done,cancelled,failed" doc:"Absent in the answer to a dry run."`
	Failure    string         `json:"failure,omitempty" doc:"Why it failed. Of a running job: why its last page was not carried out. It is tried again."`
	Total      int64          `json:"total" doc:"How many timers were selected when it was created."`
	AtLeast    bool           `json:"at_least,omitempty" doc:"There may have been more than total: they were too many to count."`
	Done       int64          `json:"done" doc:"Timers that were changed, or needed no change."`
	Failed     int64          `json:"failed" doc:"Timers that could not be changed."`
	Errors     []jobErrorBody `json:"errors,omitempty" nullable:"false" doc:"Why the first 20 of them could not."`
	CreatedAt  string         `json:"created_at,omitempty" format:"date-time" doc:"Absent in the answer to a dry run."`
	UpdatedAt  string         `json:"updated_at,omitempty" format:"date-time" doc:"When it last made progress. Absent in the answer to a dry run."`
	FinishedAt string         `json:"finished_at,omitempty" format:"date-time"`

	DryRun bool         `json:"dry_run,omitempty" doc:"Nothing was created."`
	Sample []sampleBody `json:"sample,omitempty" nullable:"false" doc:"With dry_run: the first selected timers, at most 10."`
}

type jobErrorBody struct {
	Timer string `json:"timer" doc:"The timer's id."`
	Name  string `json:"name,omitempty" doc:"The timer's name, where it is known."`
	Error string `json:"error"`
}

type sampleBody struct {
	ID     string            `json:"id"`
	Name   string            `json:"name"`
	Status string            `json:"status" enum:"active,inactive,paused"`
	Labels map[string]string `json:"labels,omitempty"`
}

type jobsBody struct {
	Items      []jobBody `json:"items" nullable:"false"`
	NextCursor string    `json:"next_cursor" doc:"Pass it as cursor for the next page; empty on the last one."`
}

// RequestBody is what a job was asked to do.
type RequestBody struct {
	Action       string            `json:"action"`
	Status       string            `json:"status"`
	Filter       filterBody        `json:"filter"`
	Reason       string            `json:"reason,omitempty"`
	Until        string            `json:"until,omitempty"`
	SetLabels    map[string]string `json:"set_labels,omitempty"`
	RemoveLabels []string          `json:"remove_labels,omitempty"`
}

// ShowRequest converts what a job was asked to do.
func ShowRequest(j *store.Job) RequestBody {
	b := showJob(j)
	return RequestBody{
		Action: b.Action, Status: b.Status, Filter: b.Filter, Reason: b.Reason, Until: b.Until,
		SetLabels: b.SetLabels, RemoveLabels: b.RemoveLabels,
	}
}

func showJob(j *store.Job) jobBody {
	b := jobBody{
		App: j.App, Action: string(j.Action), Status: string(j.Status), Failure: j.Reason,
		Total: j.Total, AtLeast: j.AtLeast, Done: j.Done, Failed: j.Failed,
		CreatedAt:  input.Instant(j.CreatedMS),
		UpdatedAt:  input.Instant(j.UpdatedMS),
		FinishedAt: input.Instant(j.FinishedMS),
	}
	if j.ID != 0 {
		b.ID = j.ID.String()
	}
	var r store.JobRequest
	if err := json.Unmarshal(j.Request, &r); err == nil { // a later release may know more
		b.Filter = filterBody{
			Labels:       r.Filter.Labels.String(),
			Status:       string(r.Filter.Status),
			NamePrefix:   r.Filter.NamePrefix,
			NameContains: r.Filter.NameContains,
			TargetHost:   r.Filter.TargetHost,
		}
		b.Reason, b.Until = r.Reason, input.Instant(r.UntilMS)
		b.SetLabels, b.RemoveLabels = r.Set, r.Remove
	}
	for _, e := range j.Errors {
		b.Errors = append(b.Errors, jobErrorBody{
			Timer: e.Timer.String(), Name: e.Name, Error: e.Error,
		})
	}
	return b
}
