package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// LeaseJob first reads whether there is a job, because most calls find none. It then locks one job
// and skips those that others have locked. Two calls at once therefore get two jobs. A call that
// dies before the commit leaves the job as it was; after it, the lease expires.
//
// A job that this release cannot read is leased too, which keeps it from the jobs behind it, and the
// next one is taken. Each round leases a job, so they end.
func (s *JobStore) LeaseJob(
	ctx context.Context,
	lease time.Duration,
) (j store.Job, ok bool, err error) {
	var found []int64
	err = s.db.Read(ctx, "reading jobs", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectAll(ctx, c, &found, s.nextDue("id"))
	})
	for err == nil && len(found) > 0 {
		var unreadable error
		err = s.db.Write(ctx, "leasing a job", func(ctx context.Context, c sqldb.Runner) error {
			j, ok, unreadable, err = s.leaseNext(ctx, c, lease)
			return err
		})
		if err != nil || !ok || unreadable == nil {
			return j, ok && err == nil, err
		}
		s.db.Log.Warn().Err(unreadable).Stringer("job", j.ID).Msg("job cannot be read")
	}
	return j, false, err
}

// leaseNext leases the job that is next. unreadable says why this release cannot carry it out, as its
// Reason then does.
func (s *JobStore) leaseNext(
	ctx context.Context, c sqldb.Runner, lease time.Duration,
) (j store.Job, ok bool, unreadable, err error) {
	var row jobRow
	err = s.db.SelectOne(ctx, c, &row, s.nextDue(jobColumns).Add(s.db.SkipLocked()))
	if errors.Is(err, sql.ErrNoRows) {
		return j, false, nil, nil
	}
	if err != nil {
		return j, false, nil, err
	}
	names, err := s.apps.Names(ctx, c, []int64{row.AppID})
	if err != nil {
		return j, false, nil, err
	}
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return j, false, nil, err
	}
	row.Token++
	q := sqldb.Stmt("UPDATE jobs SET token=").Int(row.Token).
		Add(",lease_until_ms=").Int(nowMS + lease.Milliseconds())
	j, unreadable = row.job(names[row.AppID])
	if unreadable != nil {
		q.Add(",reason=").Bind(sqldb.Clip(unreadable.Error(), maxJobReason))
	}
	_, err = s.db.Exec(ctx, c, q.Add(" WHERE id=").Int(row.ID))
	return j, err == nil, unreadable, err
}

// nextDue selects the job that has waited longest.
func (s *JobStore) nextDue(columns string) *sqldb.Statement {
	return FromDue(sqldb.Stmt("SELECT "+columns), s.db.Dialect).
		Add(" ORDER BY lease_until_ms LIMIT 1")
}

// FromDue selects from the running jobs that nobody has leased.
func FromDue(q *sqldb.Statement, d *sqldb.Dialect) *sqldb.Statement {
	return q.Add(" FROM jobs" + d.ByLease + " WHERE status=").
		Int(rowJobRunning).
		Add(" AND lease_until_ms<=").
		NowMS(d)
}

// AdvanceJob locks the job's row. A lease or a cancellation comes before, and is seen, or comes
// after and sees the progress. The end of a deletion is written with the job's last status. It
// locks the app's row first, as StartJob does. Repeated after an unknown result, it writes the same
// values while nobody has leased the job since.
func (s *JobStore) AdvanceJob(ctx context.Context, j store.Job) (ok bool, err error) {
	page, err := encodeList(j.Page)
	if err != nil {
		return false, err
	}
	texts, err := encodeList(j.Errors[:min(len(j.Errors), store.MaxJobErrors)])
	if err != nil {
		return false, err
	}
	appID, err := s.apps.ID(ctx, j.App)
	if err != nil {
		return false, err
	}
	ends := j.Action == store.JobDeleteApp && j.Status == store.JobDone
	err = s.db.Write(ctx, "advancing a job", func(ctx context.Context, c sqldb.Runner) error {
		ok = false
		if ends {
			if _, err := s.apps.Lock(ctx, c, j.App); err != nil {
				return err
			}
		}
		row, err := s.selectJob(ctx, c, appID, j.ID, s.db.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		cancelled := row.Status == rowJobCancelled
		if row.Token != j.Token || row.Status != rowJobRunning && !cancelled {
			return nil
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		q := sqldb.Stmt("UPDATE jobs SET page=").Bind(page).Add(",page_ms=").Int(j.PageMS).
			Add(",after_timer_id=").Int(int64(j.After)).
			Add(",done_count=").Int(j.Done).Add(",failed_count=").Int(j.Failed).
			Add(",errors=").Bind(texts).Add(",updated_ms=").Int(nowMS).
			Add(",lease_until_ms=").Int(nowMS)
		if status := rowJobStatus(j.Status); !cancelled {
			q.Add(",reason=").Bind(sqldb.Clip(j.Reason, maxJobReason))
			if status != rowJobRunning {
				q.Add(",status=").Int(status).Add(",finished_ms=").Int(nowMS)
			}
		}
		if _, err := s.db.Exec(ctx, c, q.Add(" WHERE id=").Int(row.ID)); err != nil {
			return err
		}
		if ends {
			err = s.endDeletion(ctx, c, &row, j.App, nowMS)
		}
		ok = err == nil
		return err
	})
	return ok && err == nil, err
}

// endDeletion makes an app an empty one. Its row stays, because every process caches its id.
// Its entry in the audit trail is that of the actor of the job.
func (s *JobStore) endDeletion(
	ctx context.Context, c sqldb.Runner, job *jobRow, app string, nowMS int64,
) error {
	by, err := audit.DecodeActor(job.StartedBy)
	if err != nil {
		return err
	}
	appID := job.AppID
	q := sqldb.Stmt("UPDATE apps SET deleting_job=0,frozen=0,freeze_reason='',frozen_since_ms=0," +
		"settings=NULL,settings_version=settings_version+1 WHERE id=").Int(appID)
	if _, err := s.db.Exec(ctx, c, q); err != nil {
		return err
	}
	if by != nil {
		by.Job = timer.ID(job.ID)
		var trail audit.Entries
		trail.Add(by, appID, store.AuditAppDeleted(app))
		if err := s.audit.Save(ctx, c, &trail, nowMS); err != nil {
			return err
		}
	}
	return s.apps.LogChange(ctx, c, appID, nowMS)
}

// encodeList returns a list as JSON, empty for none.
func encodeList[T any](list []T) ([]byte, error) {
	if len(list) == 0 {
		return []byte{}, nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encoding a job: %w", err)
	}
	return text, nil
}

// ClearApp deletes with short statements that each commit. Any number of calls may run at once, and
// a call may die halfway: the next one continues. Each statement asks again whether the app is being
// deleted: a call that is held up for long, between two of them too, may find a new app of the name.
func (s *JobStore) ClearApp(ctx context.Context, app string) (more bool, err error) {
	var row apps.Row
	err = s.db.Read(ctx, "reading an app", func(ctx context.Context, c sqlx.QueryerContext) error {
		row, err = s.apps.Select(ctx, c, app, "")
		return err
	})
	if err != nil {
		return false, err
	}
	if row.Deleting == 0 {
		return false, timer.Conflict("app", "the app "+app+" is not being deleted")
	}
	where := string(sqldb.Stmt("app_id=").Int(row.ID).
		Add(" AND EXISTS (SELECT 1 FROM apps WHERE id=").Int(row.ID).
		Add(" AND deleting_job<>0)").Text)
	for _, t := range []struct{ table, key, order string }{
		{"calendars", "app_id,name", "app_id,name"},
		{"signing_keys", "id", "app_id,id"},
		{"api_keys", "id", "app_id,id"},
		{"idempotency_keys", "app_id,idempotency_key", "app_id,idempotency_key"},
	} {
		n, err := s.db.Autocommit(ctx, "clearing "+t.table, func() *sqldb.Statement {
			return s.db.Dialect.DeleteUpTo(t.table, t.key, t.order, where, store.MaxBatch)
		})
		if err != nil {
			return false, err
		}
		more = more || n == store.MaxBatch
	}
	return more, nil
}

// JobBacklog counts running jobs along their index.
func (s *JobStore) JobBacklog(
	ctx context.Context,
	limit int,
) (n int, oldestMS int64, err error) {
	var created []int64
	err = s.db.Read(ctx, "counting jobs", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectAll(ctx, c, &created,
			sqldb.Stmt("SELECT created_ms FROM jobs"+s.db.Dialect.ByLease+" WHERE status=").
				Int(rowJobRunning).Add(" ORDER BY lease_until_ms LIMIT ").Int(int64(limit)))
	})
	for i, ms := range created {
		if i == 0 || ms < oldestMS {
			oldestMS = ms
		}
	}
	return len(created), oldestMS, err
}
