package jobs

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The stored statuses of a job.
const (
	rowJobRunning   = 0
	rowJobDone      = 1
	rowJobCancelled = 2
	rowJobFailed    = 3
)

const maxJobReason = 512 // bytes

const jobColumns = "id,app_id,action,request,started_by,status,reason,total,at_least,page,page_ms,after_timer_id," +
	"done_count,failed_count,errors,token,created_ms,updated_ms,finished_ms"

// jobRow is a row of jobs.
type jobRow struct {
	ID         int64  `db:"id"`
	AppID      int64  `db:"app_id"`
	Action     string `db:"action"`
	Request    []byte `db:"request"`
	StartedBy  []byte `db:"started_by"`
	Status     int64  `db:"status"`
	Reason     string `db:"reason"`
	Total      int64  `db:"total"`
	AtLeast    bool   `db:"at_least"`
	Page       []byte `db:"page"`
	PageMS     int64  `db:"page_ms"`
	After      int64  `db:"after_timer_id"`
	Done       int64  `db:"done_count"`
	Failed     int64  `db:"failed_count"`
	Errors     []byte `db:"errors"`
	Token      int64  `db:"token"`
	CreatedMS  int64  `db:"created_ms"`
	UpdatedMS  int64  `db:"updated_ms"`
	FinishedMS int64  `db:"finished_ms"`
}

// job returns a job. With an error, which says what this release cannot read, it has the rest.
func (r *jobRow) job(app string) (store.Job, error) {
	j := store.Job{
		ID: timer.ID(r.ID), App: app, Action: store.JobAction(r.Action), Request: r.Request,
		Status: jobStatusOf(r.Status), Reason: r.Reason,
		Total: r.Total, AtLeast: r.AtLeast,
		PageMS: r.PageMS, After: timer.ID(r.After), Done: r.Done, Failed: r.Failed,
		Token: r.Token, CreatedMS: r.CreatedMS, UpdatedMS: r.UpdatedMS, FinishedMS: r.FinishedMS,
	}
	var errs [3]error
	j.By, errs[0] = audit.DecodeActor(r.StartedBy)
	j.Page, errs[1] = decodeList[timer.ID](r.Page, "page")
	j.Errors, errs[2] = decodeList[store.JobError](r.Errors, "errors")
	return j, errors.Join(errs[:]...)
}

// shown returns a job for a caller that does not carry it out. What cannot be read is left out, and
// its Reason says so: the job is listed and cancelled like any other.
func (r *jobRow) shown(app string) store.Job {
	j, err := r.job(app)
	if err != nil {
		j.Reason = err.Error()
	}
	return j
}

// decodeList reads what encodeList wrote.
func decodeList[T any](text []byte, what string) (list []T, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the job's %s: %w", what, err)
	}
	return list, nil
}

func jobStatusOf(row int64) store.JobStatus {
	switch row {
	case rowJobDone:
		return store.JobDone
	case rowJobCancelled:
		return store.JobCancelled
	case rowJobFailed:
		return store.JobFailed
	}
	return store.JobRunning
}

func rowJobStatus(s store.JobStatus) int64 {
	switch s {
	case store.JobDone:
		return rowJobDone
	case store.JobCancelled:
		return rowJobCancelled
	case store.JobFailed:
		return rowJobFailed
	case store.JobRunning:
	}
	return rowJobRunning
}

func (s *JobStore) selectJob(
	ctx context.Context,
	c sqlx.QueryerContext,
	appID int64,
	id timer.ID,
	lock string,
) (row jobRow, err error) {
	err = s.db.SelectOne(ctx, c, &row, sqldb.Stmt("SELECT "+jobColumns+" FROM jobs WHERE id=").
		Int(int64(id)).Add(lock))
	if errors.Is(err, sql.ErrNoRows) || err == nil && row.AppID != appID {
		return row, timer.NotFound("job", id)
	}
	return row, err
}

// StartJob locks the app's row, so of two calls at once the second counts the job of the first. A
// repeated call finds its job there. The mark of a deletion and the freeze are written with the
// job: all of them are there, or nothing is.
func (s *JobStore) StartJob(ctx context.Context, j store.Job) (out store.Job, err error) {
	if err := store.CheckJobRequest(j.Request); err != nil {
		return out, err
	}
	err = s.db.Write(ctx, "starting a job", func(ctx context.Context, c sqldb.Runner) error {
		app, err := s.apps.Lock(ctx, c, j.App)
		if err != nil {
			return err
		}
		had, err := s.selectJob(ctx, c, app.ID, j.ID, "")
		switch {
		case err == nil && (had.Action != string(j.Action) || !bytes.Equal(had.Request, j.Request)):
			return store.KeyTaken()
		case err == nil:
			out = had.shown(j.App)
			return nil
		case timer.CodeOf(err) != timer.CodeNotFound:
			return err
		case had.ID != 0:
			return timer.Conflict("id", "this job id is taken")
		}
		if app.Deleting != 0 {
			if j.Action != store.JobDeleteApp {
				return store.AppDeleted(j.App)
			}
			switch had, err = s.selectJob(ctx, c, app.ID, timer.ID(app.Deleting), ""); {
			case err == nil && had.Status == rowJobRunning:
				out = had.shown(j.App)
				return nil
			case err != nil && timer.CodeOf(err) != timer.CodeNotFound:
				return err
			}
			// That job failed, and may have been purged since. Another one goes on.
		}
		out, err = s.insertJob(ctx, c, &app, &j)
		return err
	})
	return out, err
}

func (s *JobStore) insertJob(
	ctx context.Context,
	c sqldb.Runner,
	app *apps.Row,
	j *store.Job,
) (out store.Job, err error) {
	var running int64
	err = s.db.SelectOne(ctx, c, &running, sqldb.Stmt("SELECT COUNT(*) FROM jobs WHERE app_id=").
		Int(app.ID).Add(" AND status=").Int(rowJobRunning))
	if err == nil && running >= store.MaxRunningJobs && j.Action != store.JobDeleteApp {
		err = timer.Conflict("", fmt.Sprintf(
			"%d jobs of the app are running: wait for one of them, or cancel one", running,
		))
	}
	if err != nil {
		return out, err
	}
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return out, err
	}
	by, err := audit.EncodeActor(store.ActorOf(ctx))
	if err != nil {
		return out, err
	}
	row := jobRow{
		ID: int64(j.ID), AppID: app.ID, Action: string(j.Action), Request: j.Request, StartedBy: by,
		Total: j.Total, AtLeast: j.AtLeast, CreatedMS: nowMS, UpdatedMS: nowMS,
	}
	q := sqldb.Stmt(
		"INSERT INTO jobs (id,app_id,action,request,started_by,status,reason,total,at_least,page,page_ms,"+
			"after_timer_id,done_count,failed_count,errors,token,lease_until_ms,created_ms,"+
			"updated_ms,finished_ms) VALUES (",
	).
		Ints(row.ID, row.AppID).
		Add(",").
		Bind(row.Action).
		Add(",").
		Bind(sqldb.NonNil(row.Request)).
		Add(",").
		Bind(row.StartedBy).
		Add(",0,'',").
		Ints(row.Total, sqldb.Flag(row.AtLeast)).
		Add(",").
		Bind([]byte{}).
		Add(",0,0,0,0,").
		Bind([]byte{}).
		Add(",0,").
		Ints(nowMS, nowMS, nowMS, 0).
		Add(")")
	if j.Action == store.JobDeleteApp {
		if err := s.cancelAll(ctx, c, app.ID, j.App, nowMS); err != nil {
			return out, err
		}
	}
	if _, err := s.db.Exec(ctx, c, q); err != nil {
		return out, err
	}
	if j.Action == store.JobDeleteApp {
		q := sqldb.Stmt("UPDATE apps SET deleting_job=").Int(row.ID).
			Add(",frozen=1,freeze_reason=").Bind("the app is being deleted").
			Add(",frozen_since_ms=").Int(nowMS).Add(" WHERE id=").Int(app.ID)
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return out, err
		}
		if err := s.apps.LogChange(ctx, c, app.ID, nowMS); err != nil {
			return out, err
		}
	}
	e, err := store.AuditJobStarted(j)
	if err := s.audit.Add(ctx, c, app.ID, nowMS, e, err); err != nil {
		return out, err
	}
	return row.shown(j.App), nil
}

// cancelAll cancels the running jobs of an app. It locks them first, so that none ends meanwhile and
// is cancelled all the same.
func (s *JobStore) cancelAll(
	ctx context.Context, c sqldb.Runner, appID int64, app string, nowMS int64,
) error {
	var rows []jobRow
	q := sqldb.Stmt("SELECT " + jobColumns + " FROM jobs" + s.db.Dialect.ByAppStatus + " WHERE app_id=").
		Int(appID).
		Add(" AND status=").
		Int(rowJobRunning).
		Add(" ORDER BY id").
		Add(s.db.Dialect.ForUpdate)
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil || len(rows) == 0 {
		return err
	}
	ended := sqldb.Stmt("UPDATE jobs" + s.db.Dialect.ByAppStatus + " SET status=").
		Int(rowJobCancelled).
		Add(",finished_ms=").Int(nowMS).
		Add(",updated_ms=").Int(nowMS).
		Add(" WHERE app_id=").Int(appID).
		Add(" AND status=").Int(rowJobRunning)
	if _, err := s.db.Exec(ctx, c, ended); err != nil {
		return err
	}
	for i := range rows {
		j := rows[i].shown(app)
		e, err := store.AuditJobCancelled(&j)
		if err := s.audit.Add(ctx, c, appID, nowMS, e, err); err != nil {
			return err
		}
	}
	return nil
}

// Job returns a job.
func (s *JobStore) Job(ctx context.Context, app string, id timer.ID) (j store.Job, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return j, err
	}
	err = s.db.Read(ctx, "reading a job", func(ctx context.Context, c sqlx.QueryerContext) error {
		row, err := s.selectJob(ctx, c, appID, id, "")
		if err == nil {
			j = row.shown(app)
		}
		return err
	})
	return j, err
}

// Jobs returns jobs of an app, latest first.
func (s *JobStore) Jobs(
	ctx context.Context,
	app string,
	before timer.ID,
	limit int,
) (jobs []store.Job, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil || appID == 0 {
		return nil, err
	}
	if before == 0 {
		before = timer.MaxID
	}
	err = s.db.Read(ctx, "reading jobs", func(ctx context.Context, c sqlx.QueryerContext) error {
		var rows []jobRow
		q := sqldb.Stmt("SELECT " + jobColumns + " FROM jobs" + s.db.Dialect.ByApp + " WHERE app_id=").
			Int(appID).
			Add(" AND id<").
			Int(int64(before)).
			Add(" ORDER BY id DESC LIMIT ").
			Int(int64(limit))
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return err
		}
		for i := range rows {
			jobs = append(jobs, rows[i].shown(app))
		}
		return nil
	})
	return jobs, err
}

// CancelJob changes only a running job. A page that is being carried out ends, and its runner adds
// its counts. No lease comes after.
func (s *JobStore) CancelJob(
	ctx context.Context,
	app string,
	id timer.ID,
) (j store.Job, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return j, err
	}
	err = s.db.Write(ctx, "cancelling a job", func(ctx context.Context, c sqldb.Runner) error {
		row, err := s.selectJob(ctx, c, appID, id, s.db.Dialect.ForUpdate)
		if err != nil {
			return err
		}
		if row.Action == string(store.JobDeleteApp) {
			return timer.Conflict("", "the deletion of an app cannot be cancelled")
		}
		if row.Status == rowJobRunning {
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			row.Status, row.UpdatedMS, row.FinishedMS = rowJobCancelled, nowMS, nowMS
			q := sqldb.Stmt("UPDATE jobs SET status=").Int(row.Status).
				Add(",updated_ms=").Int(nowMS).Add(",finished_ms=").Int(nowMS).
				Add(" WHERE id=").Int(row.ID)
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			j = row.shown(app)
			e, err := store.AuditJobCancelled(&j)
			return s.audit.Add(ctx, c, appID, nowMS, e, err)
		}
		j = row.shown(app)
		return nil
	})
	return j, err
}
