package fires

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Overdue reads open fires along the index by_run in pages, about overdueRows in one call. A
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

func overduePositionOf(f timer.Fire) overduePosition {
	return overduePosition{
		f.RunAtMinute(),
		f.Bucket,
		store.Position{RunAtMS: f.RunAtMS, FireID: f.FireID},
	}
}

// key returns the values of overdueKey.
func (p overduePosition) key() []int64 {
	return []int64{p.minute, int64(p.bucket), p.RunAtMS, p.DueMS, int64(p.Timer), p.Series}
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
	end   overduePosition // how far this pass reads at most, see bound; zero: to the last minute
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
	if err := w.bound(ctx, at); err != nil {
		return nil, err
	}
	for seen := 0; seen < overdueRows && len(found) < limit; {
		p, err := w.page(ctx, at)
		if err != nil {
			return nil, err
		}
		seen += p.seen
		for _, f := range p.rows {
			at = overduePositionOf(f)
			if f.Owner == 0 || !w.live[f.Owner] {
				found = append(found, f)
			}
			if len(found) == limit {
				break
			}
		}
		if len(found) == limit {
			continue
		}
		at = p.next
		if at != (overduePosition{}) {
			continue
		}
		if wrapped {
			break
		}
		wrapped = true
		if err := w.bound(ctx, at); err != nil {
			return nil, err
		}
	}
	w.store.overdue.set(w.q, at)
	return distinctFires(found), nil
}

// overduePart is a page of overdue fires of a shard.
type overduePart struct {
	rows []timer.Fire
	seen int             // rows read, those of other shards too if they are many
	next overduePosition // of the last row read; zero: there are no more
}

var overdueKey = []string{"run_at_minute", "bucket", "run_at_ms", "due_ms", "timer_id", "series"}

// page reads overdue fires of the shard after a position, in order of minute, bucket and run_at. It
// reads the minute that is only partly overdue bucket by bucket, so it reads no future fires.
//
// The rows of a shard may lie far apart: all of a minute with few fires are in its first bucket.
func (w *overdueWalk) page(ctx context.Context, at overduePosition) (overduePart, error) {
	last := w.lastMinute()
	var rows []timer.Fire
	if at.minute < last {
		q := w.shard(w.from(Columns, at))
		if w.end != (overduePosition{}) {
			w.store.db.Dialect.CompareInts(q.Add(" AND "), "<=", overdueKey, w.end.key())
		}
		var err error
		rows, err = w.store.fires.Select(ctx, w.c, q.Add(fireOrder+" LIMIT ").Int(overduePage))
		switch {
		case err != nil:
			return overduePart{}, err
		case len(rows) == overduePage:
			return overduePart{rows, overduePage, overduePositionOf(rows[overduePage-1])}, nil
		case w.end != (overduePosition{}):
			return overduePart{rows, overdueRows, w.end}, nil
		}
		at = overduePosition{minute: last, bucket: -1}
	}
	more, err := w.inLastMinute(ctx, at, overduePage-len(rows))
	p := overduePart{rows: append(rows, more...)}
	if p.seen = len(p.rows); p.seen == overduePage {
		p.next = overduePositionOf(p.rows[overduePage-1])
	}
	return p, err
}

// untilMS is the run time up to which fires are overdue.
func (w *overdueWalk) untilMS() int64 { return w.nowMS - store.OverdueAfter.Milliseconds() }

// lastMinute is the one that is only partly overdue.
func (w *overdueWalk) lastMinute() int64 { return timer.MinuteOf(w.untilMS()) }

// bound sets how far a pass from a position reads at most: to the overdueRows-th row, of whatever
// shard. There is no bound if there are fewer rows, or if every row is one of the shard. It reads the
// index alone.
func (w *overdueWalk) bound(ctx context.Context, at overduePosition) error {
	w.end = overduePosition{}
	if w.q.Shards <= 1 {
		return nil
	}
	var ends []struct {
		Minute  int64 `db:"run_at_minute"`
		Bucket  int32 `db:"bucket"`
		RunAtMS int64 `db:"run_at_ms"`
		DueMS   int64 `db:"due_ms"`
		Timer   int64 `db:"timer_id"`
		Series  int64 `db:"series"`
	}
	q := w.from(strings.Join(overdueKey, ","), at).
		Add(fireOrder + " LIMIT 1 OFFSET ").Int(overdueRows - 1)
	if err := w.store.db.SelectAll(ctx, w.c, &ends, q); err != nil {
		return err
	}
	for _, e := range ends {
		w.end = overduePosition{e.Minute, e.Bucket, store.Position{
			RunAtMS: e.RunAtMS,
			FireID:  timer.FireID{DueMS: e.DueMS, Timer: timer.ID(e.Timer), Series: e.Series},
		}}
	}
	return nil
}

// from begins a statement that reads fires of all shards after a position, before the last minute.
func (w *overdueWalk) from(columns string, at overduePosition) *sqldb.Statement {
	d := w.store.db.Dialect
	q := sqldb.Stmt("SELECT " + columns + " FROM fires" + d.ByRun + " WHERE run_at_minute<").
		Int(w.lastMinute()).Add(" AND ")
	d.KeyAfter(q, overdueKey, at.key())
	return q
}

func (w *overdueWalk) inLastMinute(
	ctx context.Context,
	at overduePosition,
	limit int,
) ([]timer.Fire, error) {
	last := w.lastMinute()
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
	q.Add(") AND run_at_ms<=").Int(w.untilMS()).Add(" AND ")
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
