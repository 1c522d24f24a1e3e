package migrator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// errNewerJob is the error of a job that a newer release has made. A migrator leaves it to one of
// that release: without a field that it does not know, the filter selects more timers than were
// asked for.
var errNewerJob = errors.New(
	"finish the upgrade, so that a migrator of the newer release carries the job out",
)

// readRequest returns the request of a job, or errNewerJob if this release does not know all of it.
func readRequest(j *store.Job) (*store.JobRequest, error) {
	if !j.Action.Known() {
		return nil, notKnown(j, "the action %q", j.Action)
	}
	r := new(store.JobRequest)
	if err := json.Unmarshal(j.Request, r); err != nil {
		return nil, fmt.Errorf("reading its request: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(j.Request))
	strict.DisallowUnknownFields()
	if err := strict.Decode(new(store.JobRequest)); err != nil { // it is not the syntax
		return nil, notKnown(j, "a field of its request, %w", err)
	}
	f := &r.Filter
	if f.Status != "" && !f.Status.Known() {
		return nil, notKnown(j, "the status %q", f.Status)
	}
	for i := range f.Labels {
		switch op := f.Labels[i].Operator; op {
		case selector.In, selector.NotIn, selector.Exists, selector.NotExists:
		default:
			return nil, notKnown(j, "the operator %q", op)
		}
	}
	switch f.LastOutcome {
	case "", store.OutcomeNone, timer.Delivered, timer.Failed, timer.Skipped:
	default:
		return nil, notKnown(j, "the outcome %q", f.LastOutcome)
	}
	return r, nil
}

func notKnown(j *store.Job, format string, what any) error {
	err := fmt.Errorf("this release does not know "+format+": %w", what, errNewerJob)
	if j.Action == store.JobDeleteApp { // it cannot be cancelled
		return err
	}
	return fmt.Errorf("%w, or cancel it", err)
}
