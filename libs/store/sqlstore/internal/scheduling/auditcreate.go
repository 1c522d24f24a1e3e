package scheduling

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// minCopied is how many timers of one request are copied to the audit trail.
const minCopied = 5

// createdBy has what the entries of several new timers have in common.
type createdBy struct {
	by    *store.Actor
	after string // their state
}

// auditCreated adds the new timers to the audit trail. Those of one request are copied from their
// rows: that costs half as much as to send them again.
func (b *createBatch) auditCreated(ctx context.Context) error {
	var groups []createdBy // in order of the first timer
	members := map[createdBy][]*known{}
	for _, t := range b.created {
		if t.by == nil {
			continue
		}
		e, err := store.AuditTimerCreated(&t.timer)
		if err != nil {
			return err
		}
		t.entry = e
		g := createdBy{t.by, string(e.After)}
		if len(members[g]) == 0 {
			groups = append(groups, g)
		}
		members[g] = append(members[g], t)
	}
	var trail audit.Entries
	for _, g := range groups {
		if len(members[g]) >= minCopied {
			if err := b.copyToAudit(ctx, g, members[g]); err != nil {
				return err
			}
			continue
		}
		for _, t := range members[g] {
			trail.Add(g.by, t.timer.AppID, t.entry)
		}
	}
	return b.store.audit.Save(ctx, b.c, &trail, b.x.nowMS)
}

func (b *createBatch) copyToAudit(ctx context.Context, g createdBy, created []*known) error {
	by := audit.StoredActor(g.by)
	for part := range sqldb.Batches(created) {
		ids := make([]timer.ID, len(part))
		for i, t := range part {
			ids[i] = t.timer.ID
		}
		q := sqldb.Stmt("INSERT INTO audit_log (" + audit.Columns + ") SELECT app_id,").
			Int(b.x.nowMS)
		q = audit.AddActor(q, by).
			Add(",").Bind(string(store.AuditCreate)).Add(",").Bind(string(store.AuditTimer)).
			Add(",CAST(id AS CHAR),name,0,version,").Bind([]byte{}).Add(",").Bind([]byte(g.after)).
			Add(" FROM timers" + b.store.db.Dialect.ByPrimary + " WHERE id").IDList(ids)
		if _, err := b.store.db.Exec(ctx, b.c, q); err != nil {
			return err
		}
	}
	return nil
}
