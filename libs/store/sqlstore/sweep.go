package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// doublings is how often the time to the next sweep doubles. Later sweeps are SweepEvery apart.
const doublings = 5

// dueSweeps returns how many sweeps are due for a fire that is pastMS after its run_at.
func dueSweeps(pastMS int64) int32 {
	after := store.SweepAfter.Milliseconds()
	n := int32(0)
	for n <= doublings && pastMS >= after<<n {
		n++
	}
	if n <= doublings {
		return n
	}
	//nolint:gosec // years fit
	return n + int32((pastMS-after<<doublings)/store.SweepEvery.Milliseconds())
}

// Overdue reads without locks, then writes by key. Two calls at once may return the same fire: it
// is claimed once.
func (s *Store) Overdue(ctx context.Context, q store.OverdueQuery) ([]timer.Fire, error) {
	var found []timer.Fire
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	nowMS := now.UnixMilli()
	err = s.read(
		ctx,
		"reading overdue fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			w := &sweepWalk{store: s, c: c, q: q, nowMS: nowMS, live: map[timer.ID]bool{}}
			for _, id := range q.Live {
				w.live[id] = true
			}
			found, err = w.run(ctx)
			return err
		},
	)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if err := s.countSweeps(ctx, found, nowMS); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.RunAtMS, b.RunAtMS), timer.CompareFires(a, b))
	})
	for i := range found {
		found[i].Sweeps = dueSweeps(nowMS - found[i].RunAtMS)
	}
	return found, nil
}

// countSweeps writes the number of sweeps, computed from the row's own run_at. It does not touch a
// fire that was released meanwhile, to a later instant.
func (s *Store) countSweeps(ctx context.Context, found []timer.Fire, nowMS int64) error {
	slices.SortFunc(found, timer.CompareFires)
	after, every := store.SweepAfter.Milliseconds(), store.SweepEvery.Milliseconds()
	for part := range batches(found) {
		_, err := s.autocommit(ctx, "counting sweeps", func() *statement {
			q := stmt("UPDATE fires" + s.dialect.byPrimary + " SET sweeps=CASE")
			for n := int64(1); n <= doublings; n++ {
				q.add(" WHEN run_at_ms>").int(nowMS - after<<n).add(" THEN ").int(n)
			}
			// This is integer division in a form that both databases compute in the same way.
			past := stmt("(").int(nowMS - after<<doublings).add("-run_at_ms)")
			q.add(" ELSE ").
				int(doublings + 1).
				add("+(").
				add(string(past.text)).
				add("-").
				add(string(past.text)).
				add("%").
				int(every).
				add(")/").
				int(every).
				add(" END WHERE ")
			return q.fires(s.dialect, idsOf(part)).add(" AND run_at_ms<=").int(nowMS - after)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
