package store

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Jobs has the changes of many timers of an app, which migrators carry out in the background: S35.
type Jobs interface {
	// StartJob begins a job of an app and returns it. The caller takes its id from timer.IDs.
	// Repeated with the same id and request, it changes nothing and returns the present state.
	// Errors: not_found (unknown app); conflict: the id has another request, MaxRunningJobs of the
	// app are running, or the app is being deleted.
	//
	// A job of JobDeleteApp also freezes the app, marks it as being deleted and cancels its other
	// jobs, in the same transaction. While one is running, StartJob returns it instead of a second
	// one.
	StartJob(ctx context.Context, j Job) (Job, error)
	// Job returns a job. Error: not_found.
	Job(ctx context.Context, app string, id timer.ID) (Job, error)
	// Jobs returns up to limit jobs of an app with smaller ids than before, latest first. 0: from
	// the latest one.
	Jobs(ctx context.Context, app string, before timer.ID, limit int) ([]Job, error)
	// CancelJob ends a running job before its next page. What it has changed stays, and is counted
	// unless the runner of its page dies. Repeating it changes nothing. Errors: not_found; conflict
	// for a job of JobDeleteApp.
	CancelJob(ctx context.Context, app string, id timer.ID) (Job, error)
}

// JobRunner has what migrators carry out jobs with.
type JobRunner interface {
	// LeaseJob gives the caller one running job whose lease has expired, the one that has waited
	// longest, with a token greater than any before. ok is false if there is none. Two calls at
	// once never get the same job. A job that this release cannot read is passed over for as long
	// as a lease.
	LeaseJob(ctx context.Context, lease time.Duration) (j Job, ok bool, err error)
	// AdvanceJob writes the progress of a leased job and ends the lease: Status, Page, PageMS,
	// After, Done, Failed, Errors and Reason. It writes nothing and returns false if the job was
	// leased again since, or is not running. A cancelled job keeps its status and takes the counts.
	//
	// Status JobDone of JobDeleteApp also ends the deletion: the app is an empty one again, neither
	// frozen nor with settings.
	AdvanceJob(ctx context.Context, j Job) (ok bool, err error)
	// ClearApp deletes up to MaxBatch rows each of the calendars, signing keys, API keys and
	// idempotency keys of an app that is being deleted. more is false if there are none left.
	// Repeating it continues. Error: conflict if the app is not being deleted.
	ClearApp(ctx context.Context, app string) (more bool, err error)
	// JobBacklog returns how many jobs are running, up to limit, and the earliest creation of one,
	// 0 if there is none.
	JobBacklog(ctx context.Context, limit int) (n int, oldestMS int64, err error)
}

// Limits of jobs.
const (
	MaxRunningJobs = 20       // per app
	MaxJobErrors   = 20       // errors that a job keeps
	MaxJobRequest  = 48 << 10 // bytes of Request
)

// CheckJobRequest returns an invalid error if a request has more than MaxJobRequest bytes.
func CheckJobRequest(request []byte) error {
	if len(request) <= MaxJobRequest {
		return nil
	}
	return timer.Invalid("", fmt.Sprintf(
		"expected a filter and parameters of at most %d bytes as JSON, found %d: shorten them",
		MaxJobRequest, len(request),
	))
}

// JobAction is what a job does to each timer.
type JobAction string

// The actions of jobs.
const (
	JobPause     JobAction = "pause"
	JobResume    JobAction = "resume"
	JobDelete    JobAction = "delete"
	JobRun       JobAction = "run"
	JobRelabel   JobAction = "relabel"
	JobDeleteApp JobAction = "delete_app" // deletes all timers, then everything else of the app
)

// Known reports whether this release knows the action. A newer release may have stored another one.
func (a JobAction) Known() bool {
	switch a {
	case JobPause, JobResume, JobDelete, JobRun, JobRelabel, JobDeleteApp:
		return true
	}
	return false
}

// JobStatus is the status of a job.
type JobStatus string

// The statuses of jobs.
const (
	JobRunning   JobStatus = "running"
	JobDone      JobStatus = "done"
	JobCancelled JobStatus = "cancelled"
	JobFailed    JobStatus = "failed" // for its Reason
)

// Job is a change of many timers of an app.
type Job struct {
	ID      timer.ID // also the series of the fires that it creates
	App     string
	Action  JobAction
	Request []byte // a JobRequest as JSON, which the store does not read
	Status  JobStatus
	Reason  string // of JobFailed; of JobRunning: why its page was not carried out the last time
	By      *Actor // who started it, nil: unknown. StartJob takes that of the context
	Total   int64  // how many timers matched at its creation
	AtLeast bool   // there may have been more than Total

	// Page has the timers that are being changed. It is written before the first of them is
	// changed, so a runner that takes over changes the same ones.
	Page   []timer.ID
	PageMS int64    // when Page was written: the due instant of its fires
	After  timer.ID // every timer up to it is done, except for those in Page
	Done   int64    // timers that were changed, or need no change
	Failed int64    // timers that were not changed
	Errors []JobError

	Token      int64 // of the lease
	CreatedMS  int64
	UpdatedMS  int64
	FinishedMS int64 // 0: it is running
}

// JobRequest tells which timers a job changes, and how. Its JSON is the same for equal requests.
type JobRequest struct {
	Filter  Filter            `json:"filter"`
	Reason  string            `json:"reason,omitempty"`        // of JobPause
	UntilMS int64             `json:"until_ms,omitempty"`      // of JobPause: when it ends, 0: never
	Set     map[string]string `json:"set_labels,omitempty"`    // of JobRelabel
	Remove  []string          `json:"remove_labels,omitempty"` // of JobRelabel
}

// JobError tells why a timer was not changed.
type JobError struct {
	Timer timer.ID `json:"timer"`
	Name  string   `json:"name,omitempty"`
	Error string   `json:"error"`
}

// AppDeleted is the error of what an app that is being deleted does not allow.
func AppDeleted(app string) error {
	return timer.Conflict(
		"app",
		"the app "+app+" is being deleted: wait until its job delete_app is done",
	)
}
