package apps

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

const (
	maxApps = 100_000         // at this size the cache of apps is cleared
	maxAge  = 5 * time.Second // and at this age
)

// cache caches the ids and names of apps. An app never changes its id or name. But a server that
// takes over from another without the last commits may lack an app, and give its id to another app.
// So the cache forgets, and Deleted compares before timers are created.
type cache struct {
	mu    sync.RWMutex
	since time.Time
	ids   map[string]int64
	name  map[int64]string
}

func newCache() *cache { return &cache{ids: map[string]int64{}, name: map[int64]string{}} }

func (a *cache) expired() bool { return time.Since(a.since) > maxAge }

func (a *cache) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.ids)
	clear(a.name)
}

type appRow struct {
	ID   int64  `db:"id"`
	Name string `db:"name"`
}

func (a *cache) add(rows []appRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ids) > maxApps || a.expired() {
		clear(a.ids)
		clear(a.name)
		a.since = time.Now()
	}
	for _, r := range rows {
		a.ids[r.Name], a.name[r.ID] = r.ID, r.Name
	}
}

// lookup returns the ids of the cached names and the rest of the names, sorted.
func (a *cache) lookup(names []string) (ids map[string]int64, rest []string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	ids = make(map[string]int64, len(names))
	expired := a.expired()
	for _, n := range names {
		if id, ok := a.ids[n]; ok && !expired {
			ids[n] = id
		} else {
			rest = append(rest, n)
		}
	}
	slices.Sort(rest)
	return ids, slices.Compact(rest)
}

// ID returns the id of an app, 0 if the app does not exist.
func (s *Rows) ID(ctx context.Context, name string) (int64, error) {
	ids, rest := s.cache.lookup([]string{name})
	if len(rest) == 0 {
		return ids[name], nil
	}
	rows, err := s.read(ctx, rest)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].ID, nil
}

// Make returns the ids of apps and inserts missing ones, each outside the caller's transaction.
// Two calls with the same new app therefore do not wait for each other's timers. If the caller then
// fails, an app without timers remains, which does no harm. A dry run leaves none: the transaction
// that is given the returned context inserts the missing apps, and sets their ids.
func (s *Rows) Make(
	ctx context.Context,
	names []string,
) (context.Context, map[string]int64, error) {
	ids, rest := s.cache.lookup(names)
	if len(rest) == 0 {
		return ctx, ids, nil
	}
	rows, err := s.read(ctx, rest)
	if err != nil {
		return ctx, nil, err
	}
	for _, r := range rows {
		rest = slices.DeleteFunc(rest, func(n string) bool { return n == r.Name })
	}
	switch {
	case len(rest) == 0:
	case store.IsDryRun(ctx):
		ctx = sqldb.WithFirst(ctx, s.insertMissing(rest, ids))
	default:
		for _, n := range rest {
			insert := func() *sqldb.Statement { return s.insert(n) }
			if _, err := s.db.Autocommit(ctx, "inserting an app", insert); err != nil {
				return ctx, nil, err
			}
		}
		made, err := s.read(ctx, rest)
		if err != nil {
			return ctx, nil, err
		}
		rows = append(rows, made...)
	}
	for _, r := range rows {
		ids[r.Name] = r.ID
	}
	return ctx, ids, nil
}

// insertMissing returns the part of a dry run that inserts apps, and sets their ids.
func (s *Rows) insertMissing(names []string, ids map[string]int64) sqldb.Work {
	return func(ctx context.Context, c sqldb.Runner) error {
		for _, name := range names {
			if _, err := s.db.Exec(ctx, c, s.insert(name)); err != nil {
				return err
			}
			row, err := s.Select(ctx, c, name, "")
			if err != nil {
				return err
			}
			ids[name] = row.ID
		}
		return nil
	}
}

func (s *Rows) insert(name string) *sqldb.Statement {
	return sqldb.Stmt("INSERT INTO apps (name,created_ms) VALUES (").Bind(name).Add(",").
		NowMS(s.db.Dialect).Add(")").Add(s.db.Dialect.OnConflictNothing("name"))
}

func (s *Rows) read(ctx context.Context, names []string) (all []appRow, err error) {
	err = s.db.Read(ctx, "reading apps", func(ctx context.Context, c sqlx.QueryerContext) error {
		for part := range sqldb.Batches(names) {
			q := sqldb.Stmt("SELECT id,name FROM apps WHERE name IN (")
			for i, n := range part {
				if i > 0 {
					q.Add(",")
				}
				q.Bind(n)
			}
			var rows []appRow
			if err := s.db.SelectAll(ctx, c, &rows, q.Add(")")); err != nil {
				return err
			}
			all = append(all, rows...)
		}
		return nil
	})
	s.cache.add(all)
	return all, err
}

// Names returns the names of apps, in the caller's transaction.
func (s *Rows) Names(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []int64,
) (map[int64]string, error) {
	names := make(map[int64]string, len(ids))
	var rest []int64
	s.cache.mu.RLock()
	expired := s.cache.expired()
	for _, id := range ids {
		if n, ok := s.cache.name[id]; ok && !expired {
			names[id] = n
		} else {
			rest = append(rest, id)
		}
	}
	s.cache.mu.RUnlock()
	slices.Sort(rest)
	for part := range sqldb.Batches(slices.Compact(rest)) {
		var rows []appRow
		if err := s.db.SelectAll(
			ctx,
			c,
			&rows,
			sqldb.Stmt("SELECT id,name FROM apps WHERE id IN (").Ints(part...).Add(")"),
		); err != nil {
			return nil, err
		}
		for _, r := range rows {
			names[r.ID] = r.Name
		}
		if !store.IsDryRun(ctx) { // it may have inserted the app, and is rolled back
			s.cache.add(rows)
		}
	}
	return names, nil
}
