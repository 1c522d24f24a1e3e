package audit

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

type auditRow struct {
	Seq           int64  `db:"seq"`
	AppID         int64  `db:"app_id"`
	AtMS          int64  `db:"changed_ms"`
	ActorKind     string `db:"actor_kind"`
	ActorID       string `db:"actor_id"`
	ActorName     string `db:"actor_name"`
	Address       string `db:"address"`
	Request       string `db:"request_id"`
	Job           int64  `db:"job_id"`
	Action        string `db:"action"`
	Kind          string `db:"kind"`
	Resource      string `db:"resource"`
	Name          string `db:"name"`
	BeforeVersion int32  `db:"before_version"`
	AfterVersion  int32  `db:"after_version"`
	Before        []byte `db:"before_state"`
	After         []byte `db:"after_state"`
}

func (r *auditRow) entry(app string) store.AuditEntry {
	e := store.AuditEntry{
		Seq: r.Seq, AtMS: r.AtMS, App: app,
		By: store.Actor{
			Kind: store.ActorKind(r.ActorKind), ID: r.ActorID, Name: r.ActorName,
			Address: r.Address, Request: r.Request, Job: timer.ID(r.Job),
		},
		Action: store.AuditAction(r.Action), Kind: store.AuditKind(r.Kind),
		Resource: r.Resource, Name: r.Name,
		BeforeVersion: r.BeforeVersion, AfterVersion: r.AfterVersion,
	}
	if len(r.Before) > 0 {
		e.Before = r.Before
	}
	if len(r.After) > 0 {
		e.After = r.After
	}
	return e
}

// AuditTrail reads along the index by resource or by app. The first statement tells which entries
// of the scan match, from their short columns alone, and the second reads those. A purge in between
// may take entries out of the page. It takes no locks.
func (s *Audit) AuditTrail(
	ctx context.Context,
	query store.AuditQuery,
) (page store.AuditPage, err error) {
	appID, err := s.apps.ID(ctx, query.App)
	if err != nil || appID == 0 {
		return page, err
	}
	err = s.db.Read(
		ctx,
		"reading the audit trail",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			page = store.AuditPage{}
			var scanned []struct {
				Seq     int64 `db:"seq"`
				Matches bool  `db:"matches"`
			}
			if err := s.db.SelectAll(ctx, c, &scanned, s.auditScan(&query, appID)); err != nil {
				return err
			}
			var found []timer.ID // sequences
			for i := range scanned {
				if scanned[i].Matches {
					found = append(found, timer.ID(scanned[i].Seq))
				}
				more := i+1 < len(scanned) || len(scanned) == query.ScanLimit
				if more && (len(found) == query.Limit || i+1 == len(scanned)) {
					page.Next = scanned[i].Seq
					break
				}
			}
			for part := range sqldb.Batches(found) {
				var rows []auditRow
				q := sqldb.Stmt("SELECT seq," + Columns + " FROM audit_log" + s.db.Dialect.ByPrimary +
					" WHERE seq").
					IDList(part).
					Add(" ORDER BY seq DESC")
				if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
					return err
				}
				for i := range rows {
					page.Entries = append(page.Entries, rows[i].entry(query.App))
				}
			}
			return nil
		},
	)
	return page, err
}

// auditScan selects the entries to examine, the latest first, and whether each matches.
func (s *Audit) auditScan(query *store.AuditQuery, appID int64) *sqldb.Statement {
	q := sqldb.Stmt("SELECT seq,(")
	conditions := 0
	where := func(condition string) *sqldb.Statement {
		if conditions > 0 {
			q.Add(" AND ")
		}
		conditions++
		return q.Add(condition)
	}
	byResource := query.Kind != "" && query.Resource != ""
	for _, f := range []struct{ column, value string }{
		{"kind=", string(query.Kind)},
		{"resource=", query.Resource},
		{"name=", query.Name},
		{"action=", string(query.Action)},
		{"actor_id=", query.Actor},
	} {
		if f.value != "" {
			where(f.column).Bind(f.value)
		}
	}
	if query.FromMS != 0 {
		where("changed_ms>=").Int(query.FromMS)
	}
	if query.ToMS != 0 {
		where("changed_ms<").Int(query.ToMS)
	}
	if conditions == 0 {
		q.Add("1")
	}
	q.Add(") AS matches FROM audit_log")
	if byResource {
		q.Add(s.db.Dialect.ByResource)
	} else {
		q.Add(s.db.Dialect.ByApp)
	}
	q.Add(" WHERE app_id=").Int(appID)
	if byResource {
		q.Add(" AND kind=").Bind(string(query.Kind)).Add(" AND resource=").Bind(query.Resource)
	}
	if query.Before != 0 {
		q.Add(" AND seq<").Int(query.Before)
	}
	return q.Add(" ORDER BY seq DESC LIMIT ").Int(int64(query.ScanLimit))
}

// PurgeAudit deletes in short statements that each commit, like PurgeExpired. An entry that is added
// meanwhile, or that took an early sequence and commits late, stays: only expired ones are deleted.
func (s *Audit) PurgeAudit(ctx context.Context, retention time.Duration) error {
	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}
	boundMS := now.Add(-retention).UnixMilli()
	return s.db.DeleteOld(ctx, "audit_log", now.UnixMilli(), boundMS, false)
}
