package migrator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// editTries is how often an edit is repeated when others came between.
	editTries = 5
	// runsAtOnce limits the transactions that a page of runs has in flight.
	runsAtOnce = 8
)

// carryOut changes the timers of a job's page, and returns those that were not changed. Repeating
// it changes nothing more.
func (s *Service) carryOut(
	ctx context.Context,
	j *store.Job,
	r *store.JobRequest,
) (failed []store.JobError, err error) {
	switch j.Action {
	case store.JobPause:
		return s.setStatus(ctx, j, store.StatusChange{
			Status:  timer.StatusPaused,
			Reason:  r.Reason,
			UntilMS: r.UntilMS,
			From:    []timer.Status{cmp.Or(r.Filter.Status, timer.StatusActive)},
		})
	case store.JobResume:
		return s.setStatus(ctx, j, store.StatusChange{
			Status: timer.StatusActive,
			From:   []timer.Status{timer.StatusPaused},
		})
	case store.JobDelete, store.JobDeleteApp:
		return s.setStatus(ctx, j, store.StatusChange{Status: timer.StatusDeleted})
	case store.JobRun:
		return s.run(ctx, j)
	case store.JobRelabel:
		return s.relabel(ctx, j, r)
	}
	return nil, notKnown(j, "the action %q", j.Action)
}

// setStatus changes the status of a page in one transaction. A timer that has the status by then is
// done: this page was carried out before, or somebody else came first, whose reason and end stay.
func (s *Service) setStatus(
	ctx context.Context,
	j *store.Job,
	change store.StatusChange,
) (failed []store.JobError, err error) {
	items := make([]store.StatusChange, len(j.Page))
	for i, id := range j.Page {
		items[i] = change
		items[i].App, items[i].ID = j.App, id
	}
	done, err := s.changes.SetStatus(ctx, items)
	for i := range done {
		if done[i].Err != nil && done[i].Timer.Status != change.Status {
			failed = append(failed, store.JobError{
				Timer: j.Page[i], Name: done[i].Timer.Name, Error: done[i].Err.Error(),
			})
		}
	}
	return failed, err
}

// run adds a fire to each timer of a page. Its series is the job's id and its due instant that of
// the page, so a repetition adds no second one.
func (s *Service) run(ctx context.Context, j *store.Job) (failed []store.JobError, err error) {
	errs := make([]error, len(j.Page))
	g, running := errgroup.WithContext(ctx)
	g.SetLimit(runsAtOnce)
	for i, id := range j.Page {
		g.Go(func() error {
			f := timer.Fire{
				FireID:  timer.FireID{Timer: id, DueMS: j.PageMS, Series: int64(j.ID)},
				RunAtMS: j.PageMS,
				Cause:   timer.CauseRunNow,
				State:   timer.FireReady,
			}
			f.Bucket = s.opts.Counts.Bucket(f.FireID, f.RunAtMinute())
			_, err := s.changes.AddFires(running, j.App, id, []timer.Fire{f})
			switch timer.CodeOf(err) {
			case timer.CodeUnavailable, timer.CodeInternal:
				return err
			case timer.CodeNotFound, timer.CodeConflict, timer.CodeInvalid:
				errs[i] = err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err //nolint:wrapcheck // it says what was being done
	}
	var refused []timer.ID
	for i, err := range errs {
		if err != nil {
			refused = append(refused, j.Page[i])
			failed = append(failed, store.JobError{Timer: j.Page[i], Error: err.Error()})
		}
	}
	if len(refused) == 0 {
		return nil, nil
	}
	states, err := s.opts.Store.States(ctx, refused)
	if err != nil {
		return nil, fmt.Errorf("reading the names of timers: %w", err)
	}
	for i := range failed {
		at := slices.IndexFunc(states, func(t timer.State) bool { return t.ID == failed[i].Timer })
		if at >= 0 {
			failed[i].Name = states[at].Name
		}
	}
	return failed, nil
}

// relabel edits the labels of a page in one transaction, based on the versions that it read. It
// reads those again that others edited meanwhile. A timer that has the labels keeps its version.
func (s *Service) relabel(
	ctx context.Context,
	j *store.Job,
	r *store.JobRequest,
) (failed []store.JobError, err error) {
	rest := j.Page
	for try := 1; len(rest) > 0; try++ {
		edits, names, problems, err := s.labelEdits(ctx, j.App, rest, r)
		failed = append(failed, problems...)
		if err != nil || len(edits) == 0 {
			return failed, err
		}
		done, err := s.changes.Edit(ctx, edits, nil)
		if err != nil {
			return nil, err
		}
		rest = nil
		for i := range done {
			id := edits[i].ID
			switch err := done[i].Err; {
			case err == nil:
			case timer.CodeOf(err) == timer.CodeConflict && try < editTries:
				rest = append(rest, id)
			default:
				failed = append(failed, store.JobError{
					Timer: id, Name: names[id], Error: err.Error(),
				})
			}
		}
	}
	return failed, nil
}

// labelEdits reads timers and returns the edits that give them their new labels.
func (s *Service) labelEdits(
	ctx context.Context,
	app string,
	ids []timer.ID,
	r *store.JobRequest,
) (edits []store.Edit, names map[timer.ID]string, failed []store.JobError, err error) {
	states, err := s.opts.Store.States(ctx, ids)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading the timers: %w", err)
	}
	keys := make([]store.VersionKey, len(states))
	for i := range states {
		keys[i] = store.VersionKey{Timer: states[i].ID, Version: states[i].Version}
	}
	definitions, err := s.opts.Store.Definitions(ctx, keys)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("reading the definitions: %w", err)
	}
	names = make(map[timer.ID]string, len(states))
	for i := range states {
		t := &states[i]
		names[t.ID] = t.Name
		known := definitions[keys[i]]
		if known == nil { // purged with its timer, or the database is damaged
			err := timer.NotFound("definition of timer", t.ID)
			failed = append(failed, store.JobError{Timer: t.ID, Name: t.Name, Error: err.Error()})
			continue
		}
		d := *known
		if d.Unreadable != "" { // an edit would lose what it has
			failed = append(failed, store.JobError{
				Timer: t.ID, Name: t.Name, Error: d.Unreadable,
			})
			continue
		}
		labels := maps.Clone(d.Labels)
		if labels == nil {
			labels = make(map[string]string, len(r.Set))
		}
		for _, name := range r.Remove {
			delete(labels, name)
		}
		maps.Copy(labels, r.Set)
		if err := checkLabels(&d, labels); err != nil {
			failed = append(failed, store.JobError{Timer: t.ID, Name: t.Name, Error: err.Error()})
			continue
		}
		if d.Labels = labels; len(labels) == 0 {
			d.Labels = nil
		}
		edits = append(edits, store.Edit{
			App: app, ID: t.ID, IfVersion: t.Version, Definition: d,
		})
	}
	return edits, names, failed, nil
}
