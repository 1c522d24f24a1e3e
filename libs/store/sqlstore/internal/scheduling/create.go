package scheduling

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Create reads which names and keys exist, decides item by item in memory, inserts new rows, and
// checks that the inserted rows are its own. It overwrites nothing.
//
// If another call was first, or another process chose the same id, the whole transaction is rolled
// back and repeated with new ids. It then sees the other call's rows. So of any number of calls at
// once, one wins. The items of one call are decided as if they had come one after the other.
//
// Items that the database refuses for a value in one of them are cut in halves, each in a
// transaction of its own, until the bad one is found. Its result is the error. The items of a call
// may be those of several callers, who shall not fail with it.
func (s *Scheduling) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	if len(items) == 0 {
		return nil, nil
	}
	names := make([]string, len(items))
	encoded := make([]encodedDefinition, len(items))
	for i, it := range items {
		names[i] = it.App
		var err error
		if encoded[i].text, encoded[i].hash, err = timers.EncodeDefinition(
			it.Definition,
		); err != nil {
			return nil, err
		}
	}
	ctx, appIDs, err := s.apps.Make(ctx, names)
	if err != nil {
		return nil, err
	}
	return s.createBisecting(ctx, &createBatch{
		store:   s,
		items:   items,
		encoded: encoded,
		appIDs:  appIDs,
		plan:    plan,
	})
}

// createBisecting creates the items of a batch that has not run. With an error, the results are what
// the commits would have created: nobody knows whether the last one did.
func (s *Scheduling) createBisecting(
	ctx context.Context,
	all *createBatch,
) (out []store.CreateResult, err error) {
	err = s.db.Write(ctx, "creating timers", func(ctx context.Context, c sqldb.Runner) error {
		b := *all
		b.c, b.creationToken = c, rand.Int64()
		b.names, b.keys = map[timers.NameKey]*known{}, map[timers.NameKey]*knownKey{}
		var err error
		out, err = b.run(ctx)
		return err
	})
	if s.db.Dialect.ClassOf(err) != engine.ClassData {
		return out, err
	}
	if len(all.items) == 1 {
		return []store.CreateResult{{Err: err}}, nil
	}
	first, second := *all, *all
	half := len(all.items) / 2
	first.items, second.items = all.items[:half], all.items[half:]
	first.encoded, second.encoded = all.encoded[:half], all.encoded[half:]
	if out, err = s.createBisecting(ctx, &first); err != nil {
		return out, err
	}
	more, err := s.createBisecting(ctx, &second)
	return append(out, more...), err
}

type encodedDefinition struct{ text, hash []byte }

// known is a timer that exists or is about to be inserted.
type known struct {
	timer timer.Timer
	hash  []byte
	text  []byte // definition of a new timer
	fires []timer.Fire
	by    *store.Actor // who creates a new timer
	entry store.AuditEntry
}

// knownKey is an idempotency key that exists or is about to be inserted.
type knownKey struct {
	timers.NameKey

	hash  []byte
	timer *known
}

// createBatch is one transaction of Create.
type createBatch struct {
	store         *Scheduling
	c             sqldb.Runner
	items         []store.NewTimer
	encoded       []encodedDefinition
	appIDs        map[string]int64
	plan          store.Planner
	creationToken int64
	x             *expansion
	shared        timers.Calendars

	room int // for timers with metrics

	names   map[timers.NameKey]*known
	keys    map[timers.NameKey]*knownKey
	created []*known
	newKeys []*knownKey
}

func (b *createBatch) run(ctx context.Context) ([]store.CreateResult, error) {
	deleted, err := b.store.apps.Deleted(ctx, b.c, b.appIDs)
	if err != nil {
		return nil, err
	}
	if err := b.lookup(ctx); err != nil {
		return nil, err
	}
	nowMS, err := b.store.db.NowMS(ctx, b.c)
	if err != nil {
		return nil, err
	}
	wanted := slices.ContainsFunc(b.items, func(it store.NewTimer) bool {
		return it.Definition.Metrics
	})
	if b.room, err = b.store.timers.MeteredRoom(ctx, b.c, wanted); err != nil {
		return nil, err
	}
	b.x = b.store.newExpansion(b.c, b.plan, nowMS)
	out := make([]store.CreateResult, len(b.items))
	for i := range b.items {
		if app := b.items[i].App; deleted[app] {
			out[i].Err = store.AppDeleted(app)
			continue
		}
		if out[i].Err = store.CheckIdempotencyKey(b.items[i].IdempotencyKey); out[i].Err != nil {
			continue
		}
		out[i] = b.decide(ctx, i)
	}
	if err := b.insert(ctx); err != nil {
		return nil, err
	}
	return out, nil
}

// decide returns the result of one item, from what exists and what the items before it add.
func (b *createBatch) decide(ctx context.Context, i int) store.CreateResult {
	it := b.items[i]
	app := b.appIDs[it.App]
	key := timers.NameKey{App: app, Name: it.IdempotencyKey}
	if k := b.keys[key]; it.IdempotencyKey != "" && k != nil {
		if !bytes.Equal(k.hash, it.RequestHash) {
			return store.CreateResult{Err: store.KeyTaken()}
		}
		return store.CreateResult{Timer: k.timer.timer, Existing: true}
	}
	name := timers.NameKey{App: app, Name: it.Name}
	t, existing := b.names[name]
	if existing && !bytes.Equal(t.hash, b.encoded[i].hash) {
		return store.CreateResult{
			Err: store.NameTaken(),
		}
	}
	if !existing {
		if err := b.shared.Missing(app, &it.Definition.Schedule); err != nil {
			return store.CreateResult{Err: err}
		}
		if err := timers.TakeMetered(&b.room, false, it.Definition.Metrics); err != nil {
			return store.CreateResult{Err: err}
		}
		t = b.add(i, app)
		t.by = audit.ActorOf(ctx, it.By)
		b.names[name] = t
	}
	if it.IdempotencyKey != "" {
		k := &knownKey{NameKey: key, hash: it.RequestHash, timer: t}
		b.keys[key] = k
		b.newKeys = append(b.newKeys, k)
	}
	if existing {
		return store.CreateResult{Timer: t.timer, Existing: true}
	}
	return store.CreateResult{Timer: t.timer, Fires: t.fires}
}

// add creates a new timer, with its first fires if it is to be active.
func (b *createBatch) add(i int, app int64) *known {
	it := b.items[i]
	t := &known{
		hash: b.encoded[i].hash, text: b.encoded[i].text,
		timer: timer.Timer{
			ID:         b.store.settings.IDs.Next(),
			App:        it.App,
			AppID:      app,
			Name:       it.Name,
			Origin:     it.Origin,
			Status:     timer.StatusInactive,
			Version:    1,
			Definition: it.Definition,
			VersionMS:  b.x.nowMS,
			CreatedMS:  b.x.nowMS,
			UpdatedMS:  b.x.nowMS,
		},
	}
	t.timer.Calendars = b.shared.Of(&t.timer)
	if it.Activate {
		b.x.begin(&t.timer)
		t.fires, _ = b.x.expand(&t.timer)
	}
	b.created = append(b.created, t)
	return t
}

// insert writes the new rows in the order of their keys, so that two calls with the same names do
// not deadlock.
func (b *createBatch) insert(ctx context.Context) error {
	if len(b.created) > 0 {
		if err := b.insertTimers(ctx); err != nil {
			return err
		}
	}
	if len(b.newKeys) > 0 {
		if err := b.insertKeys(ctx); err != nil {
			return err
		}
	}
	return b.x.flush(ctx)
}

func (b *createBatch) insertTimers(ctx context.Context) error {
	s := b.store
	slices.SortFunc(b.created, func(x, y *known) int {
		return timers.NameKey{
			App:  x.timer.AppID,
			Name: x.timer.Name,
		}.Compare(
			timers.NameKey{App: y.timer.AppID, Name: y.timer.Name},
		)
	})
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, b.created, timers.InsertTimers) {
		ids := make([]timer.ID, len(part))
		for i, t := range part {
			timers.AddRow(q, i == 0, &t.timer, timers.ReplanNothing).
				Add(",").
				Bind(t.timer.Name).
				Add(",").
				Int(b.creationToken).
				Add(")")
			ids[i] = t.timer.ID
		}
		q.Add(s.db.Dialect.OnConflictNothing("id"))
		// If a row is not new, the id or the name was taken.
		if err := b.insertNew(ctx, q, len(part), func() *sqldb.Statement {
			return sqldb.Stmt("SELECT COUNT(*) FROM timers WHERE id").IDList(ids)
		}); err != nil {
			return err
		}
	}
	versions := make([]timers.AddedVersion, len(b.created))
	for i, t := range b.created {
		versions[i] = timers.AddedVersion{
			VersionKey: store.VersionKey{Timer: t.timer.ID, Version: t.timer.Version},
			Hash:       t.hash,
			Text:       t.text,
		}
	}
	if err := s.timers.InsertVersions(
		ctx,
		b.c,
		versions,
		b.created[0].timer.CreatedMS,
	); err != nil {
		return err
	}
	if err := s.timers.InsertUses(ctx, b.c, usesOf(b.created)); err != nil {
		return err
	}
	if err := s.timers.InsertAttributes(ctx, b.c, attributesOf(b.created)); err != nil {
		return err
	}
	return b.auditCreated(ctx)
}

// insertNew inserts n rows that keep existing ones, and returns engine.ErrRepeat unless all of them
// are new. With one writer the result of the INSERT tells. Elsewhere that also counts existing rows,
// so it counts those with this call's creation token. count begins that statement.
func (b *createBatch) insertNew(
	ctx context.Context,
	insert *sqldb.Statement,
	n int,
	count func() *sqldb.Statement,
) error {
	s := b.store
	inserted, err := s.db.Exec(ctx, b.c, insert)
	if err != nil {
		return err
	}
	if !s.db.Dialect.SingleWriter {
		q := count().Add(" AND creation_token=").Int(b.creationToken)
		if err := s.db.SelectOne(ctx, b.c, &inserted, q); err != nil {
			return err
		}
	}
	if inserted != int64(n) {
		return engine.ErrRepeat
	}
	return nil
}

func attributesOf(created []*known) (all []timers.Attribute) {
	for _, t := range created {
		all = append(all, timers.TimerAttributes(&t.timer)...)
	}
	return all
}

// usesOf returns the calendars that new timers name.
func usesOf(created []*known) (uses []timers.CalendarUse) {
	for _, t := range created {
		uses = append(uses, timers.TimerUses(&t.timer)...)
	}
	return uses
}
