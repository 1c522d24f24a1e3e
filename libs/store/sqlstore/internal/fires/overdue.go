package fires

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Overdue reads open fires along the index by_run in pages, at most overdueRows in one call. A
// backlog of millions takes several calls. Each continues where the last one stopped, and none
// blocks the others.
const (
	overduePage = 1000
	overdueRows = 20_000
)

// overduePositions remembers where the scan of each shard stopped. A new process begins at the
// oldest fire.
type overduePositions struct {
	mu sync.Mutex
	at map[[2]int32]overduePosition
}

type overduePosition struct {
	minute int64
	bucket int32
	store.Position
}

func newOverduePositions() *overduePositions {
	return &overduePositions{at: map[[2]int32]overduePosition{}}
}

func (p *overduePositions) get(q store.OverdueQuery) overduePosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[[2]int32{q.Shard, q.Shards}]
}

func (p *overduePositions) set(q store.OverdueQuery, at overduePosition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[[2]int32{q.Shard, q.Shards}] = at
}

// overdueWalk is one call of Overdue.
type overdueWalk struct {
	store *Fires
	c     sqlx.QueryerContext
	q     store.OverdueQuery
	nowMS int64
	live  map[timer.ID]bool
}

// Overdue reads without locks. Two calls at once may return the same fire: it is claimed once.
func (s *Fires) Overdue(ctx context.Context, q store.OverdueQuery) (found []timer.Fire, err error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return nil, err
	}
	err = s.db.Read(
		ctx,
		"reading overdue fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			w := &overdueWalk{
				store: s,
				c:     c,
				q:     q,
				nowMS: now.UnixMilli(),
				live:  map[timer.ID]bool{},
			}
			for _, id := range q.Live {
				w.live[id] = true
			}
			found, err = w.run(ctx)
			return err
		},
	)
	slices.SortFunc(found, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.RunAtMS, b.RunAtMS), timer.CompareFires(a, b))
	})
	return found, err
}

// run scans from where the last call stopped to now. If rows and limit allow, it then scans from
// the start to there.
func (w *overdueWalk) run(ctx context.Context) ([]timer.Fire, error) {
	limit := max(w.q.Limit, 0)
	start := w.store.overdue.get(w.q)
	at, wrapped := start, start == overduePosition{}
	var found []timer.Fire
	for seen := 0; seen < overdueRows && len(found) < limit; {
		rows, err := w.page(ctx, at)
		if err != nil {
			return nil, err
		}
		seen += len(rows)
		for _, f := range rows {
			at = overduePosition{
				f.RunAtMinute(),
				f.Bucket,
				store.Position{RunAtMS: f.RunAtMS, FireID: f.FireID},
			}
			if f.Owner == 0 || !w.live[f.Owner] {
				found = append(found, f)
			}
			if len(found) == limit {
				break
			}
		}
		if len(found) == limit || len(rows) == overduePage {
			continue
		}
		at = overduePosition{}
		if wrapped {
			break
		}
		wrapped = true
	}
	w.store.overdue.set(w.q, at)
	return distinctFires(found), nil
}

// page reads overdue fires of the shard after a position, in order of minute, bucket and run_at. It
// reads the minute that is only partly overdue bucket by bucket, so it reads no future fires.
func (w *overdueWalk) page(ctx context.Context, at overduePosition) ([]timer.Fire, error) {
	untilMS := w.nowMS - store.OverdueAfter.Milliseconds()
	last := timer.MinuteOf(untilMS)
	var rows []timer.Fire
	if at.minute < last {
		q := w.shard(sqldb.Stmt("SELECT " + Columns + " FROM fires" + w.store.db.Dialect.ByRun + " WHERE run_at_minute<").Int(last)).
			Add(" AND ")
		w.store.db.Dialect.KeyAfter(
			q,
			[]string{"run_at_minute", "bucket", "run_at_ms", "due_ms", "timer_id", "series"},
			[]int64{at.minute, int64(at.bucket), at.RunAtMS, at.DueMS, int64(at.Timer), at.Series},
		)
		var err error
		rows, err = w.store.fires.Select(ctx, w.c, q.Add(fireOrder+" LIMIT ").Int(overduePage))
		if err != nil || len(rows) == overduePage {
			return rows, err
		}
		at = overduePosition{minute: last, bucket: -1}
	}
	more, err := w.lastMinute(ctx, at, last, untilMS, overduePage-len(rows))
	return append(rows, more...), err
}

func (w *overdueWalk) lastMinute(
	ctx context.Context,
	at overduePosition,
	last, untilMS int64,
	limit int,
) ([]timer.Fire, error) {
	if at.minute > last {
		return nil, nil
	}
	buckets, err := w.store.bucketsOf(ctx, w.c, last)
	if err != nil {
		return nil, err
	}
	q := sqldb.Stmt(
		"SELECT " + Columns + " FROM fires" + w.store.db.Dialect.ByRun + " WHERE run_at_minute=",
	).Int(last).
		Add(" AND bucket IN (-1")
	for b := max(at.bucket, 0); b < buckets; b++ {
		if w.q.Shards <= 1 || b%w.q.Shards == w.q.Shard {
			q.Add(",").Int(int64(b))
		}
	}
	q.Add(") AND run_at_ms<=").Int(untilMS).Add(" AND ")
	w.store.db.Dialect.KeyAfter(q, []string{"bucket", "run_at_ms", "due_ms", "timer_id", "series"},
		[]int64{int64(at.bucket), at.RunAtMS, at.DueMS, int64(at.Timer), at.Series})
	return w.store.fires.Select(ctx, w.c, q.Add(fireOrder+" LIMIT ").Int(int64(limit)))
}

func (w *overdueWalk) shard(q *sqldb.Statement) *sqldb.Statement {
	if w.q.Shards <= 1 {
		return q
	}
	return q.Add(" AND bucket%").Int(int64(w.q.Shards)).Add("=").Int(int64(w.q.Shard))
}

func distinctFires(fires []timer.Fire) []timer.Fire {
	slices.SortFunc(fires, timer.CompareFires)
	return slices.CompactFunc(fires, sameFire)
}
