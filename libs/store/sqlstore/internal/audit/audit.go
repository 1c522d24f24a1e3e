package audit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// Columns are those that an entry inserts.
const Columns = "app_id,changed_ms,actor_kind,actor_id,actor_name,address,request_id,job_id," +
	"action,kind,resource,name,before_version,after_version,before_state,after_state"

// Entries collects the entries of one transaction, which writes them with one statement.
type Entries struct {
	entries []auditItem
	given   *store.Actor // the actor of the last entry, and what is stored of it
	stored  *store.Actor
}

type auditItem struct {
	store.AuditEntry

	appID int64
	by    *store.Actor
}

// ActorOf returns the actor of an item, nil: nobody, and nothing is added to the trail.
func ActorOf(ctx context.Context, by *store.Actor) *store.Actor {
	if by != nil {
		return by
	}
	return store.ActorOf(ctx)
}

// Add adds an entry of an actor, unless there is none.
func (a *Entries) Add(by *store.Actor, appID int64, e store.AuditEntry) {
	if by == nil {
		return
	}
	if by != a.given {
		a.given, a.stored = by, StoredActor(by)
	}
	a.entries = append(a.entries, auditItem{AuditEntry: e, appID: appID, by: a.stored})
}

// StoredActor returns the actor with its texts cut to the lengths of their columns.
func StoredActor(by *store.Actor) *store.Actor {
	return &store.Actor{
		Kind:    by.Kind,
		ID:      sqldb.Clip(by.ID, store.MaxActorID),
		Name:    sqldb.Clip(by.Name, store.MaxActorName),
		Address: sqldb.Clip(by.Address, store.MaxActorAddress),
		Request: sqldb.Clip(by.Request, store.MaxActorRequest),
		Job:     by.Job,
	}
}

// Save inserts the entries of a transaction. It is called once what they tell is written, so a
// transaction that is refused or repeated leaves none. The sequence is taken here and visible with
// the commit: readers see entries in nearly this order.
func (s *Trail) Save(ctx context.Context, c sqldb.Runner, trail *Entries, nowMS int64) error {
	rest := trail.entries
	for len(rest) > 0 {
		q := sqldb.Stmt("INSERT INTO audit_log (" + Columns + ") VALUES ")
		n, size := 0, 0
		for ; n < len(rest) && n < store.MaxBatch && (n == 0 || size+rest[n].size() <= sqldb.MaxStatementBytes); n++ {
			size += rest[n].size()
			addEntry(q, n == 0, &rest[n], nowMS)
		}
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (e *auditItem) size() int { return len(e.Before) + len(e.After) }

func addEntry(q *sqldb.Statement, first bool, e *auditItem, nowMS int64) {
	AddActor(q.Open(first).Ints(e.appID, nowMS), e.by)
	for _, text := range []string{string(e.Action), string(e.Kind), e.Resource, e.Name} {
		q.Add(",").Bind(text)
	}
	q.Add(",").Ints(int64(e.BeforeVersion), int64(e.AfterVersion)).
		Add(",").Bind(sqldb.NonNil(e.Before)).Add(",").Bind(sqldb.NonNil(e.After)).Add(")")
}

// AddActor adds the columns of an actor.
func AddActor(q *sqldb.Statement, by *store.Actor) *sqldb.Statement {
	for _, text := range []string{string(by.Kind), by.ID, by.Name, by.Address, by.Request} {
		q.Add(",").Bind(text)
	}
	return q.Add(",").Int(int64(by.Job))
}

// Add adds one entry of the context's actor to the trail. err is that of the entry.
func (s *Trail) Add(
	ctx context.Context, c sqldb.Runner, appID, nowMS int64, e store.AuditEntry, err error,
) error {
	if err != nil {
		return err
	}
	var trail Entries
	trail.Add(store.ActorOf(ctx), appID, e)
	return s.Save(ctx, c, &trail, nowMS)
}

// AddAudit shares the lock of the app's row, so that an app which is being deleted gets no more
// entries. Two calls at once add two entries. A call that is repeated after a lost answer adds another, because
// what was done has no other mark in the store.
func (s *Audit) AddAudit(ctx context.Context, app string, e store.AuditEntry) error {
	if store.ActorOf(ctx) == nil {
		return nil
	}
	ctx, _, err := s.apps.Make(ctx, []string{app})
	if err != nil {
		return err
	}
	return s.db.Write(
		ctx,
		"adding to the audit trail",
		func(ctx context.Context, c sqldb.Runner) error {
			row, err := s.apps.Share(ctx, c, app)
			if err != nil {
				return err
			}
			if row.Deleting != 0 {
				return store.AppDeleted(app)
			}
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			return s.audit.Add(ctx, c, row.ID, nowMS, e, nil)
		},
	)
}

// EncodeActor returns the stored form of the actor of a job, empty: none.
func EncodeActor(by *store.Actor) ([]byte, error) {
	if by == nil {
		return []byte{}, nil
	}
	text, err := json.Marshal(StoredActor(by))
	if err != nil {
		return nil, fmt.Errorf("encoding an actor: %w", err)
	}
	return text, nil
}

// DecodeActor reads what EncodeActor wrote. nil: no actor is known.
func DecodeActor(text []byte) (*store.Actor, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // no actor is known
	}
	var by store.Actor
	if err := json.Unmarshal(text, &by); err != nil {
		return nil, fmt.Errorf("reading an actor: %w", err)
	}
	return &by, nil
}
