package migrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// jobTimeout limits a page. It is shorter than the lease, so no page goes on after another
	// migrator has leased the job. Only a process that was frozen may end one late. Its changes are
	// those that the other makes, too, and its progress is refused.
	jobTimeout = 20 * time.Second
	jobLease   = 30 * time.Second
	// giveBackTimeout limits the end of a lease after an error.
	giveBackTimeout = 2 * time.Second
	// activationPage is how many timers are activated at once: each may get 120 fires.
	activationPage = 100
	// runPage is how many timers are run at once, each by its own transaction, runsAtOnce at a time. A
	// page that does not end within jobTimeout begins again, so it has 20 s for 7 transactions one after
	// the other: enough where each of their round trips takes 200 ms.
	runPage = 50
	// pageBodies bounds the memory and the transaction of a page, in bytes. A timer may have bodies of
	// some megabytes.
	pageBodies = 4 << 20
	// searchesPerPage limits the searches for the next page. A search may find nothing although
	// there are more timers.
	searchesPerPage = 10
)

// jobs carries out page after page of the jobs, and waits otherwise. A job has its turn for one
// page, so that a long one does not keep the others waiting.
func (s *Service) jobs(ctx context.Context, due signal) error {
	stop := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		s.changes.Publish(stop)
		return nil
	})
	for due.wait(ctx) {
		more, err := s.jobPage(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.met.jobErrors.Inc()
			s.log.Warn().Err(err).Msg("page of a job not carried out")
			clock.Pause(ctx, retryAfter)
		case more:
			due.set()
		}
	}
	close(stop)
	return g.Wait()
}

// jobPage carries out one page of a job and chooses the next one. It returns whether there was a
// job.
//
// The page is in the job's row before any of its timers is changed. A migrator that dies on the way
// leaves it there, and the next one changes the same timers again, which changes nothing more. Only
// then the counts and the next page are written, in one statement. After an error, the lease is
// given back with the job as it was, and with the error as its Reason.
func (s *Service) jobPage(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	j, ok, err := s.opts.Store.LeaseJob(ctx, jobLease)
	if err != nil || !ok {
		return false, err
	}
	before := j
	j.Reason = ""
	if err := s.advance(ctx, &j); err != nil {
		// A deletion that failed would leave its app closed, so it is tried again whatever the
		// error. What a newer release has made is given back to its migrators: those of this
		// release at most delay it.
		if timer.CodeOf(err) == timer.CodeUnavailable || ctx.Err() != nil ||
			j.Action == store.JobDeleteApp || errors.Is(err, errNewerJob) {
			before.Reason = err.Error()
			s.giveBack(ctx, before)
			return true, fmt.Errorf("job %d: %w", j.ID, err)
		}
		// No repetition helps.
		s.log.Error().Err(err).Stringer("job", j.ID).Msg("job failed")
		j = before
		j.Status, j.Reason = store.JobFailed, err.Error()
	}
	counted, err := s.opts.Store.AdvanceJob(ctx, j)
	if err != nil {
		return true, fmt.Errorf("job %d: %w", j.ID, err)
	}
	if counted {
		s.count(&before, &j)
	}
	return true, nil
}

// giveBack ends the lease of a job, also at a stop. If that fails, the lease expires.
func (s *Service) giveBack(ctx context.Context, j store.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if _, err := s.opts.Store.AdvanceJob(ctx, j); err != nil {
		s.log.Debug().Err(err).Stringer("job", j.ID).Msg("job not given back; its lease expires")
	}
}

// advance carries out the page of a job and chooses the next one.
func (s *Service) advance(ctx context.Context, j *store.Job) error {
	r, err := readRequest(j)
	if err != nil {
		return err
	}
	if len(j.Page) > 0 {
		failed, err := s.carryOut(asActor(ctx, j), j, r)
		if err != nil {
			return err
		}
		j.Done += int64(len(j.Page) - len(failed))
		j.Failed += int64(len(failed))
		j.Errors = append(j.Errors, failed...)
		j.Errors = j.Errors[:min(len(j.Errors), store.MaxJobErrors)]
	}
	more, err := s.nextPage(ctx, j, r)
	if err != nil {
		return err
	}
	if len(j.Page) > 0 || more {
		return nil
	}
	if j.Action == store.JobDeleteApp {
		if more, err = s.opts.Store.ClearApp(ctx, j.App); err != nil || more {
			return err
		}
	}
	j.Status = store.JobDone
	return nil
}

// asActor makes changes those of the actor who started the job.
func asActor(ctx context.Context, j *store.Job) context.Context {
	if j.By == nil {
		return ctx
	}
	by := *j.By
	by.Job = j.ID
	return store.WithActor(ctx, &by)
}

// nextPage writes the timers that are next to j.
func (s *Service) nextPage(
	ctx context.Context,
	j *store.Job,
	r *store.JobRequest,
) (more bool, err error) {
	j.Page, j.PageMS = nil, s.opts.Now().UnixMilli()
	limit := s.opts.JobPage
	switch j.Action {
	case store.JobResume:
		limit = min(limit, activationPage)
	case store.JobRun:
		limit = min(limit, runPage)
	case store.JobPause, store.JobDelete, store.JobDeleteApp, store.JobRelabel: // one transaction
	}
	for range searchesPerPage {
		found, after, more, err := s.find(ctx, j, r, limit)
		if err != nil {
			return false, err
		}
		for i := range found {
			j.Page = append(j.Page, found[i].ID)
		}
		if j.After = max(j.After, after); len(j.Page) > 0 || !more {
			return more, nil
		}
	}
	return true, nil
}

// find returns timers of a job in order of id, and how far it looked. Timers that were created after
// the job are none of it: their ids are always to come, so it might never end. Only the deletion of
// an app takes all timers.
//
// The store's clock decides, which wrote both instants. Ids do not: those of timers and of jobs come
// from clocks of several processes, and a repetition under an idempotency key has the id of before. A
// timer of the same millisecond as the job is taken.
func (s *Service) find(
	ctx context.Context,
	j *store.Job,
	r *store.JobRequest,
	limit int,
) (found []timer.Timer, after timer.ID, more bool, err error) {
	q := store.SearchQuery{
		Filter:       r.Filter,
		After:        store.SearchPosition{ID: j.After},
		Limit:        limit,
		MaxBodyBytes: pageBodies,
	}
	if j.Action == store.JobDeleteApp {
		q.Filter = store.Filter{}
	}
	q.App = j.App
	page, err := s.opts.Store.Search(ctx, q)
	if n := len(page.Timers); n > 0 {
		after = page.Timers[n-1].ID
	}
	if page.More {
		after = page.Next.ID
	}
	found = page.Timers
	if j.Action != store.JobDeleteApp {
		found = slices.DeleteFunc(
			found,
			func(t timer.Timer) bool { return t.CreatedMS > j.CreatedMS },
		)
	}
	return found, after, page.More, err
}

// count counts what a page did.
func (s *Service) count(before, after *store.Job) {
	action := string(after.Action)
	s.met.jobTimers.WithLabelValues(action, "done").Add(float64(after.Done - before.Done))
	s.met.jobTimers.WithLabelValues(action, "failed").Add(float64(after.Failed - before.Failed))
	if after.Status == store.JobRunning {
		return
	}
	s.met.jobEnd.WithLabelValues(action, string(after.Status)).Inc()
	s.log.Info().
		Stringer("job", after.ID).
		Str("app", after.App).
		Str("action", action).
		Str("status", string(after.Status)).
		Int64(logging.Count, after.Done).
		Int64("failed", after.Failed).
		Msg("job ended")
}

// gaugeJobs sets the gauges of the jobs.
func (s *Service) gaugeJobs(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	n, oldest, err := s.opts.Store.JobBacklog(call, gaugeLimit)
	if err != nil {
		return
	}
	age := 0.0
	if oldest > 0 {
		age = max(0, float64(s.opts.Now().UnixMilli()-oldest)/1000) //nolint:mnd // ms to s
	}
	s.met.jobsRunning.Set(float64(n))
	s.met.jobAge.Set(age)
}
