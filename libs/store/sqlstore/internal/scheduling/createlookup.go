package scheduling

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// lookup reads the calendars, names and idempotency keys of the items that exist.
func (b *createBatch) lookup(ctx context.Context) error {
	var names, keys, used []timers.NameKey
	for i := range b.items {
		it := &b.items[i]
		app := b.appIDs[it.App]
		for _, name := range it.Definition.Schedule.Calendars {
			used = append(used, timers.NameKey{App: app, Name: name})
		}
		names = append(names, timers.NameKey{App: app, Name: it.Name})
		if it.IdempotencyKey != "" {
			keys = append(keys, timers.NameKey{App: app, Name: it.IdempotencyKey})
		}
	}
	var err error
	if b.shared, err = b.store.timers.ShareCalendars(ctx, b.c, used); err != nil {
		return err
	}
	rows, err := b.lookupNames(ctx, names)
	if err != nil {
		return err
	}
	ts, err := b.load(ctx, rows)
	if err != nil {
		return err
	}
	for _, t := range ts {
		b.names[timers.NameKey{App: t.timer.AppID, Name: t.timer.Name}] = t
	}
	if len(keys) == 0 {
		return nil
	}
	return b.lookupKeys(ctx, keys)
}

// lookupKeys reads the idempotency keys and their timers, deleted ones too: the first answer
// stands.
func (b *createBatch) lookupKeys(ctx context.Context, keys []timers.NameKey) error {
	type keyRow struct {
		App   int64  `db:"app_id"`
		Key   string `db:"idempotency_key"`
		Hash  []byte `db:"request_hash"`
		Timer int64  `db:"value"`
	}
	var found []keyRow
	var ids []timer.ID
	for part := range sqldb.Batches(timers.DistinctKeys(keys)) {
		var rows []keyRow
		q := timers.InKeys(sqldb.Stmt(
			"SELECT app_id,idempotency_key,request_hash,value FROM idempotency_keys WHERE ",
		), b.store.db.Dialect, "idempotency_key", part)
		if err := b.store.db.SelectAll(ctx, b.c, &rows, q); err != nil {
			return err
		}
		for _, r := range rows {
			found = append(found, r)
			ids = append(ids, timer.ID(r.Timer))
		}
	}
	byID := map[timer.ID]*known{}
	for part := range sqldb.Batches(ids) {
		var rows []timers.Row
		q := sqldb.Stmt("SELECT " + timers.Columns + " FROM timers WHERE id").IDList(part)
		if err := b.store.db.SelectAll(ctx, b.c, &rows, q); err != nil {
			return err
		}
		ts, err := b.load(ctx, rows)
		if err != nil {
			return err
		}
		for _, t := range ts {
			byID[t.timer.ID] = t
		}
	}
	for _, r := range found {
		t := byID[timer.ID(r.Timer)]
		if t == nil {
			return fmt.Errorf("the timer %d of an idempotency key is gone", r.Timer)
		}
		k := timers.NameKey{App: r.App, Name: r.Key}
		b.keys[k] = &knownKey{NameKey: k, hash: r.Hash, timer: t}
	}
	return nil
}

func (b *createBatch) lookupNames(
	ctx context.Context,
	keys []timers.NameKey,
) ([]timers.Row, error) {
	var all []timers.Row
	for part := range sqldb.Batches(timers.DistinctKeys(keys)) {
		var rows []timers.Row
		q := timers.InKeys(sqldb.Stmt(
			"SELECT "+timers.Columns+" FROM timers WHERE ",
		), b.store.db.Dialect, "live_name", part)
		if err := b.store.db.SelectAll(ctx, b.c, &rows, q); err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

func (b *createBatch) load(ctx context.Context, rows []timers.Row) ([]*known, error) {
	hashes := make(map[timer.ID][]byte, len(rows))
	ts, err := b.store.timers.CompleteAll(ctx, b.c, rows, hashes)
	if err != nil {
		return nil, err
	}
	out := make([]*known, len(ts))
	for i, t := range ts {
		out[i] = &known{timer: t, hash: hashes[t.ID]}
	}
	return out, nil
}

// insertKeys writes the idempotency keys and checks that they are its own, like insertTimers.
func (b *createBatch) insertKeys(ctx context.Context) error {
	s := b.store
	slices.SortFunc(b.newKeys, func(x, y *knownKey) int { return x.Compare(y.NameKey) })
	const into = "INSERT INTO idempotency_keys " +
		"(app_id,idempotency_key,request_hash,value,creation_token,created_ms) VALUES "
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, b.newKeys, into) {
		keys := make([]timers.NameKey, len(part))
		for i, k := range part {
			hash := k.hash
			if hash == nil {
				hash = []byte{}
			}
			q.Open(i == 0).Int(k.App).Add(",").Bind(k.Name).Add(",").Bind(hash).Add(",").
				Ints(int64(k.timer.timer.ID), b.creationToken, b.x.nowMS).Add(")")
			keys[i] = k.NameKey
		}
		q.Add(s.db.Dialect.OnConflictNothing("app_id"))
		if err := b.insertNew(ctx, q, len(part), func() *sqldb.Statement {
			return timers.InKeys(
				sqldb.Stmt("SELECT COUNT(*) FROM idempotency_keys WHERE "),
				s.db.Dialect,
				"idempotency_key",
				keys,
			)
		}); err != nil {
			return err
		}
	}
	return nil
}
