package sqlstore

import (
	"context"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The sweep reads open fires along the index by_run in pages, at most sweepRows in one call. A
// backlog of millions takes several calls. Each continues where the last one stopped, and none
// blocks the others.
const (
	sweepPage = 1000
	sweepRows = 20_000
)

// sweepPositions remembers where the scan of each shard stopped. A new process begins at the oldest
// fire.
type sweepPositions struct {
	mu sync.Mutex
	at map[[2]int32]sweepPosition
}

type sweepPosition struct {
	minute int64
	bucket int32
	store.Position
}

func newSweepPositions() *sweepPositions {
	return &sweepPositions{at: map[[2]int32]sweepPosition{}}
}

func (p *sweepPositions) get(q store.OverdueQuery) sweepPosition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[[2]int32{q.Shard, q.Shards}]
}

func (p *sweepPositions) set(q store.OverdueQuery, at sweepPosition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[[2]int32{q.Shard, q.Shards}] = at
}

// sweepWalk is one call of Overdue.
type sweepWalk struct {
	store *Store
	c     sqlx.QueryerContext
	q     store.OverdueQuery
	nowMS int64
	live  map[timer.ID]bool

	cursor int64
	slices map[sliceKey]bool // rows of the minutes in asked, from the cursor on
	asked  map[int64]bool
}

type sliceKey struct {
	Minute int64 `db:"minute"`
	Bucket int32 `db:"bucket"`
}

// run scans from where the last call stopped to now. If rows and limit allow, it then scans from
// the start to there.
func (w *sweepWalk) run(ctx context.Context) ([]timer.Fire, error) {
	var err error
	if w.cursor, _, err = w.store.readCursor(ctx); err != nil {
		return nil, err
	}
	w.slices, w.asked = map[sliceKey]bool{}, map[int64]bool{}
	limit := max(w.q.Limit, 0)
	start := w.store.sweeps.get(w.q)
	at, wrapped := start, start == sweepPosition{}
	var found []timer.Fire
	for seen := 0; seen < sweepRows && len(found) < limit; {
		rows, err := w.page(ctx, at)
		if err != nil {
			return nil, err
		}
		seen += len(rows)
		for _, f := range rows {
			at = sweepPosition{
				f.RunAtMinute(),
				f.Bucket,
				store.Position{RunAtMS: f.RunAtMS, FireID: f.FireID},
			}
			ok, err := w.wanted(ctx, &f)
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, f)
			}
			if len(found) == limit {
				break
			}
		}
		if len(found) == limit || len(rows) == sweepPage {
			continue
		}
		at = sweepPosition{}
		if wrapped {
			break
		}
		wrapped = true
	}
	w.store.sweeps.set(w.q, at)
	return distinctFires(found), nil
}

// wanted reports whether an overdue fire is to be dispatched again.
func (w *sweepWalk) wanted(ctx context.Context, f *timer.Fire) (bool, error) {
	if f.Owner != 0 && w.live[f.Owner] || f.Sweeps >= dueSweeps(w.nowMS-f.RunAtMS) {
		return false, nil
	}
	minute := f.RunAtMinute()
	if minute < w.cursor {
		return true, nil
	}
	if !w.asked[minute] {
		var rows []sliceKey
		err := w.store.selectAll(
			ctx,
			w.c,
			&rows,
			stmt("SELECT minute,bucket FROM slices WHERE minute=").int(minute),
		)
		if err != nil {
			return false, err
		}
		for _, r := range rows {
			w.slices[r] = true
		}
		w.asked[minute] = true
	}
	return w.slices[sliceKey{minute, f.Bucket}], nil
}

// page reads overdue fires of the shard after a position, in order of minute, bucket and run_at. It
// reads the minute that is only partly overdue bucket by bucket, so it reads no future fires.
func (w *sweepWalk) page(ctx context.Context, at sweepPosition) ([]timer.Fire, error) {
	untilMS := w.nowMS - store.SweepAfter.Milliseconds()
	last := timer.MinuteOf(untilMS)
	var rows []timer.Fire
	if at.minute < last {
		q := w.shard(stmt("SELECT " + fireColumns + " FROM fires" + w.store.dialect.byRun + " WHERE run_at_minute<").int(last)).
			add(" AND ")
		w.store.dialect.keyAfter(
			q,
			[]string{"run_at_minute", "bucket", "run_at_ms", "due_ms", "timer_id", "series"},
			[]int64{at.minute, int64(at.bucket), at.RunAtMS, at.DueMS, int64(at.Timer), at.Series},
		)
		var err error
		rows, err = w.store.selectFires(ctx, w.c, q.add(fireOrder+" LIMIT ").int(sweepPage))
		if err != nil || len(rows) == sweepPage {
			return rows, err
		}
		at = sweepPosition{minute: last, bucket: -1}
	}
	more, err := w.lastMinute(ctx, at, last, untilMS, sweepPage-len(rows))
	return append(rows, more...), err
}

func (w *sweepWalk) lastMinute(
	ctx context.Context,
	at sweepPosition,
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
	q := stmt(
		"SELECT " + fireColumns + " FROM fires" + w.store.dialect.byRun + " WHERE run_at_minute=",
	).int(last).
		add(" AND bucket IN (-1")
	for b := max(at.bucket, 0); b < buckets; b++ {
		if w.q.Shards <= 1 || b%w.q.Shards == w.q.Shard {
			q.add(",").int(int64(b))
		}
	}
	q.add(") AND run_at_ms<=").int(untilMS).add(" AND ")
	w.store.dialect.keyAfter(q, []string{"bucket", "run_at_ms", "due_ms", "timer_id", "series"},
		[]int64{int64(at.bucket), at.RunAtMS, at.DueMS, int64(at.Timer), at.Series})
	return w.store.selectFires(ctx, w.c, q.add(fireOrder+" LIMIT ").int(int64(limit)))
}

func (w *sweepWalk) shard(q *statement) *statement {
	if w.q.Shards <= 1 {
		return q
	}
	return q.add(" AND bucket%").int(int64(w.q.Shards)).add("=").int(int64(w.q.Shard))
}

func distinctFires(fires []timer.Fire) []timer.Fire {
	slices.SortFunc(fires, timer.CompareFires)
	return slices.CompactFunc(fires, sameFire)
}
