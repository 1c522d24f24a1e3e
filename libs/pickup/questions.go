package pickup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Store answers the questions of a poller.
type Store interface {
	MinuteCounts(ctx context.Context, from, to int64) ([]slicing.MinuteCount, error)
	LoadSlice(
		ctx context.Context,
		minute int64,
		bucket int32,
		after store.Position,
		untilMS int64,
		limit int,
	) ([]timer.Fire, error)
	Overdue(ctx context.Context, q store.OverdueQuery) ([]timer.Fire, error)
	Owned(
		ctx context.Context, sessions []timer.ID, fromMS, untilMS int64, limit int,
	) ([]timer.Fire, error)
	ExpiredSessions(ctx context.Context, within time.Duration) ([]store.Session, error)
}

// Question is what a poller asks the store.
type Question int

// The questions of a poller.
const (
	DueSoon  Question = iota // unclaimed and due soon, or a little past
	Overdue                  // long past, and without an alive owner
	Orphaned                 // claimed by a session that has expired
)

// Slices returns the slices of a shard from one minute to another, both included, in order.
func Slices(
	ctx context.Context, st Store, shard Shard, from, to int64,
) (keys []Slice, err error) {
	counts, err := st.MinuteCounts(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("reading the buckets of minutes: %w", err)
	}
	buckets := make(map[int64]int32, len(counts))
	for _, c := range counts {
		buckets[c.Minute] = c.Buckets
	}
	for minute := from; minute <= to; minute++ {
		for bucket := range max(1, buckets[minute]) {
			if shard.Has(bucket) {
				keys = append(keys, Slice{minute, bucket})
			}
		}
	}
	return keys, nil
}

// Slice is one minute of run times in one bucket.
type Slice struct {
	Minute int64
	Bucket int32
}

// dueSoon returns unclaimed fires of the shard with afterMS < run time <= untilMS, in order of run
// time, and about limit in total. It reads slicePage of each slice, and a few slices at once, as far
// as there is room for all that they may have. leaveOut takes those that are kept and those that were
// read since, and returns the ones to keep. Behind a burst that is left out may be fires of others: so
// dueSoon reads on in slices of which most is left out, and then in those that it has not read, up to
// behindBursts fires more than limit. With an error it returns what it has read until then.
func dueSoon(
	ctx context.Context, st Store, shard Shard, afterMS, untilMS int64, limit int,
	leaveOut func(kept, read []timer.Fire) []timer.Fire,
) (fires []timer.Fire, err error) {
	keys, err := Slices(ctx, st, shard, timer.MinuteOf(afterMS), timer.MinuteOf(untilMS))
	if err != nil {
		return nil, err
	}
	from := make(map[Slice]store.Position, len(keys))
	for _, k := range keys {
		from[k] = store.After(afterMS)
	}
	left := limit + behindBursts
	for err == nil && len(keys) > 0 && len(fires) < limit && left > 0 {
		var read []timer.Fire
		next := keys // of the next round
		full := make(map[Slice]int)
		for err == nil && len(next) > 0 {
			room := min(limit-len(fires)-len(read), left)
			if room <= 0 {
				break
			}
			n := min(room, slicePage)
			some := next[:min(len(next), slicesAtOnce, max(1, room/slicePage))]
			next = next[len(some):]
			var pages [][]timer.Fire
			pages, err = loadPages(ctx, st, some, from, untilMS, n)
			for i, page := range pages {
				if len(page) == n {
					last := &page[n-1]
					from[some[i]] = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
					full[some[i]] = n
				}
				read = append(read, page...)
				left -= len(page)
			}
		}
		fires = leaveOut(fires, read)
		kept := make(map[Slice]int, len(full))
		for i := range fires {
			kept[Slice{fires[i].RunAtMinute(), fires[i].Bucket}]++
		}
		next = slices.Clone(next)
		for _, k := range keys {
			if n := full[k]; n > 0 && kept[k] < n/2 {
				next = append(next, k)
			}
		}
		keys = next
	}
	slices.SortFunc(fires, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.RunAtMS, b.RunAtMS), timer.CompareFires(a, b))
	})
	return fires, err
}

// loadPages reads up to n fires of each slice, of all at once. With an error it returns the pages that
// were read.
func loadPages(
	ctx context.Context,
	st Store,
	keys []Slice,
	from map[Slice]store.Position,
	untilMS int64,
	n int,
) ([][]timer.Fire, error) {
	pages, errs := make([][]timer.Fire, len(keys)), make([]error, len(keys))
	var reading sync.WaitGroup
	for i, k := range keys {
		after := from[k]
		reading.Go(func() {
			pages[i], errs[i] = st.LoadSlice(ctx, k.Minute, k.Bucket, after, untilMS, n)
		})
	}
	reading.Wait()
	if err := cmp.Or(errs...); err != nil {
		return pages, fmt.Errorf("reading fires that are due soon: %w", err)
	}
	return pages, nil
}

// overdue returns fires of the shard that are long past and that none of the alive sessions owns.
func overdue(
	ctx context.Context, st Store, shard Shard, alive []store.Session, limit int,
) ([]timer.Fire, error) {
	q := store.OverdueQuery{Shard: shard.Index, Shards: shard.Count, Limit: limit}
	for _, l := range alive {
		if l.Kind == store.ExecutorSession {
			q.Live = append(q.Live, l.ID)
		}
	}
	fires, err := st.Overdue(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("reading overdue fires: %w", err)
	}
	return fires, nil
}

// orphans remembers which expired sessions own fires no more.
type orphans struct {
	since map[timer.ID]time.Time // when an expired session was first seen
	done  map[timer.ID]bool      // it owns nothing, and no claim of it can still commit
}

// find returns the fires of all shards that recently expired sessions own, in order of run time. It
// asks for those with a run time from onTime on first: behind very many late ones, which must wait
// while executors are congested, nobody would see them. If the store does not answer for the late
// ones in time, find returns the others with the error, and the next one asks for all again.
func (o *orphans) find(
	ctx context.Context, st Store, now, onTime time.Time,
) (fires []timer.Fire, err error) {
	expired, err := st.ExpiredSessions(ctx, askOrphansFor)
	if err != nil {
		return nil, fmt.Errorf("reading expired sessions: %w", err)
	}
	since, done := make(map[timer.ID]time.Time), make(map[timer.ID]bool)
	var owners []timer.ID
	for _, e := range expired {
		if e.Kind != store.ExecutorSession {
			continue
		}
		if since[e.ID] = o.since[e.ID]; since[e.ID].IsZero() {
			since[e.ID] = time.Now()
		}
		if done[e.ID] = o.done[e.ID]; !done[e.ID] {
			owners = append(owners, e.ID)
		}
	}
	o.since, o.done = since, done
	if len(owners) == 0 {
		return nil, nil
	}
	fromMS, untilMS := onTime.UnixMilli(), now.Add(claimedAhead).UnixMilli()
	fires, err = st.Owned(ctx, owners, fromMS, untilMS, orphanPage)
	if err == nil && len(fires) < orphanPage {
		call, cancel := context.WithTimeout(ctx, lateOrphansTimeout)
		defer cancel()
		var late []timer.Fire
		late, err = st.Owned(call, owners, 0, fromMS-1, orphanPage-len(fires))
		fires = append(late, fires...)
	}
	if err != nil {
		return fires, fmt.Errorf("reading the claims of expired sessions: %w", err)
	}
	for _, id := range owners {
		owns := slices.ContainsFunc(fires, func(f timer.Fire) bool { return f.Owner == id })
		done[id] = !owns && len(fires) < orphanPage && time.Since(since[id]) >= lateCommits
	}
	return fires, nil
}
