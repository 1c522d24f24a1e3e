package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// job is a job with its lease.
type job struct {
	store.Job

	leaseUntilMS int64
}

// shown returns a copy that the caller may keep.
func (j *job) shown() store.Job {
	out := j.Job
	out.Request = slices.Clone(j.Request)
	out.Page = slices.Clone(j.Page)
	out.Errors = slices.Clone(j.Errors)
	return out
}

func (j *job) finish(status store.JobStatus, nowMS int64) {
	j.Status, j.UpdatedMS, j.FinishedMS = status, nowMS, nowMS
}

// runningJobs returns the running jobs that are wanted, those first whose lease ended first.
func (s *Store) runningJobs(wanted func(j *job) bool) (jobs []*job) {
	for _, j := range s.jobs {
		if j.Status == store.JobRunning && wanted(j) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.leaseUntilMS, b.leaseUntilMS), cmp.Compare(a.ID, b.ID))
	})
	return jobs
}

// StartJob begins a job.
func (s *Store) StartJob(ctx context.Context, j store.Job) (store.Job, error) {
	if err := store.CheckJobRequest(j.Request); err != nil {
		return store.Job{}, err
	}
	defer s.lockToWrite(ctx)()
	app := s.apps[j.App]
	had := s.jobs[j.ID]
	switch {
	case app == nil:
		return store.Job{}, store.NoSuchApp(j.App)
	case had != nil && had.App != j.App:
		return store.Job{}, timer.Conflict("id", "this job id is taken")
	case had != nil && (had.Action != j.Action || !bytes.Equal(had.Request, j.Request)):
		return store.Job{}, store.KeyTaken()
	case had != nil:
		return had.shown(), nil
	case app.Deleting != 0 && j.Action != store.JobDeleteApp:
		return store.Job{}, store.AppDeleted(j.App)
	case app.Deleting != 0:
		if had = s.jobs[app.Deleting]; had != nil && had.Status == store.JobRunning {
			return had.shown(), nil
		}
		// That job failed, and may have been purged since. Another one goes on.
	}
	nowMS := s.nowMS()
	running := s.runningJobs(func(o *job) bool { return o.App == j.App })
	if j.Action == store.JobDeleteApp {
		for _, o := range running {
			o.finish(store.JobCancelled, nowMS)
			e, err := store.AuditJobCancelled(&o.Job)
			s.addAudit(store.ActorOf(ctx), o.App, e, err)
		}
		app.Deleting, app.Frozen = j.ID, true
		app.Reason, app.FrozenMS = "the app is being deleted", nowMS
		s.log(nowMS, nil, app)
	} else if len(running) >= store.MaxRunningJobs {
		return store.Job{}, timer.Conflict("", fmt.Sprintf(
			"%d jobs of the app are running: wait for one of them, or cancel one", len(running),
		))
	}
	made := &job{Job: store.Job{
		ID:        j.ID,
		App:       j.App,
		Action:    j.Action,
		Request:   slices.Clone(j.Request),
		By:        store.ActorOf(ctx),
		Status:    store.JobRunning,
		Total:     j.Total,
		AtLeast:   j.AtLeast,
		CreatedMS: nowMS,
		UpdatedMS: nowMS,
	}, leaseUntilMS: nowMS}
	s.jobs[j.ID] = made
	e, err := store.AuditJobStarted(&made.Job)
	s.addAudit(made.By, j.App, e, err)
	return made.shown(), nil
}

func (s *Store) job(app string, id timer.ID) (*job, error) {
	if j := s.jobs[id]; j != nil && j.App == app {
		return j, nil
	}
	return nil, timer.NotFound("job", id)
}

// Job returns a job.
func (s *Store) Job(_ context.Context, app string, id timer.ID) (store.Job, error) {
	defer s.lock()()
	j, err := s.job(app, id)
	if err != nil {
		return store.Job{}, err
	}
	return j.shown(), nil
}

// Jobs returns jobs of an app, latest first.
func (s *Store) Jobs(
	_ context.Context,
	app string,
	before timer.ID,
	limit int,
) (jobs []store.Job, err error) {
	defer s.lock()()
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(s.jobs))) {
		j := s.jobs[id]
		if j.App == app && (before == 0 || id < before) && len(jobs) < limit {
			jobs = append(jobs, j.shown())
		}
	}
	return jobs, nil
}

// CancelJob ends a running job.
func (s *Store) CancelJob(ctx context.Context, app string, id timer.ID) (store.Job, error) {
	defer s.lockToWrite(ctx)()
	j, err := s.job(app, id)
	if err != nil {
		return store.Job{}, err
	}
	if j.Action == store.JobDeleteApp {
		return store.Job{}, timer.Conflict("", "the deletion of an app cannot be cancelled")
	}
	if j.Status == store.JobRunning {
		j.finish(store.JobCancelled, s.nowMS())
		e, err := store.AuditJobCancelled(&j.Job)
		s.addAudit(store.ActorOf(ctx), app, e, err)
	}
	return j.shown(), nil
}

// LeaseJob gives the caller a running job.
func (s *Store) LeaseJob(
	_ context.Context,
	lease time.Duration,
) (out store.Job, ok bool, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	for _, j := range s.dueJobs(nowMS) {
		j.Token++
		j.leaseUntilMS = nowMS + lease.Milliseconds()
		return j.shown(), true, nil
	}
	return out, false, nil
}

// dueJobs returns the running jobs that nobody has leased.
func (s *Store) dueJobs(nowMS int64) []*job {
	return s.runningJobs(func(j *job) bool { return j.leaseUntilMS <= nowMS })
}

// AdvanceJob writes the progress of a leased job.
func (s *Store) AdvanceJob(_ context.Context, p store.Job) (bool, error) {
	defer s.lock()()
	j, err := s.job(p.App, p.ID)
	if err != nil {
		return false, err
	}
	cancelled := j.Status == store.JobCancelled
	if j.Token != p.Token || j.Status != store.JobRunning && !cancelled {
		return false, nil
	}
	nowMS := s.nowMS()
	j.Page, j.PageMS, j.After = slices.Clone(p.Page), p.PageMS, p.After
	j.Done, j.Failed, j.UpdatedMS, j.leaseUntilMS = p.Done, p.Failed, nowMS, nowMS
	j.Errors = slices.Clone(p.Errors[:min(len(p.Errors), store.MaxJobErrors)])
	if !cancelled {
		j.Reason = p.Reason
		if p.Status != store.JobRunning {
			j.finish(p.Status, nowMS)
		}
	}
	if j.Action == store.JobDeleteApp && p.Status == store.JobDone {
		app := s.app(j.App)
		app.Deleting, app.Frozen, app.Reason, app.FrozenMS = 0, false, "", 0
		app.Settings = store.AppSettings{}
		app.Version++
		s.log(nowMS, nil, app)
		if j.By != nil {
			by := *j.By
			by.Job = j.ID
			s.addAudit(&by, j.App, store.AuditAppDeleted(j.App), nil)
		}
	}
	return true, nil
}

// ClearApp deletes what an app has besides timers.
func (s *Store) ClearApp(_ context.Context, name string) (more bool, err error) {
	defer s.lock()()
	app := s.apps[name]
	if app == nil {
		return false, store.NoSuchApp(name)
	}
	if app.Deleting == 0 {
		return false, timer.Conflict("app", "the app "+name+" is not being deleted")
	}
	maps.DeleteFunc(s.calendars, func(k nameKey, _ *store.CalendarVersion) bool {
		return k.app == name
	})
	maps.DeleteFunc(s.signing, func(_ timer.ID, k *store.SigningKey) bool { return k.App == name })
	maps.DeleteFunc(s.keysByID, func(_ string, k *store.APIKey) bool { return k.App == name })
	maps.DeleteFunc(s.keys, func(k nameKey, _ *key) bool { return k.app == name })
	maps.DeleteFunc(s.once, func(k absentKey, _ absentValue) bool { return k.app == name })
	return false, nil
}

// JobBacklog counts running jobs.
func (s *Store) JobBacklog(_ context.Context, limit int) (n int, oldestMS int64, err error) {
	defer s.lock()()
	for _, j := range s.runningJobs(func(*job) bool { return true }) {
		if n == limit {
			break
		}
		if n++; n == 1 || j.CreatedMS < oldestMS {
			oldestMS = j.CreatedMS
		}
	}
	return n, oldestMS, nil
}

// refuseDeleted returns a conflict if the app is being deleted.
func (s *Store) refuseDeleted(app string) error {
	if a := s.apps[app]; a != nil && a.Deleting != 0 {
		return store.AppDeleted(app)
	}
	return nil
}
