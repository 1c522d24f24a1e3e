package fires

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Cancel finishes those of the given fires that are open and unowned, in one transaction. It
// removes them from the queue of their timer, and a slot that one of them has goes to the next. It
// locks like recordLinked, with the timer's row first: a slot request of one of them comes before,
// and finds it queued, or comes after and does not own it. A repeated call finds none of them.
// Nobody is told about a fire that gets the slot: executors find it overdue.
func (s *Rows) Cancel(ctx context.Context, ids []timer.FireID) error {
	return s.db.Write(ctx, "cancelling fires", func(ctx context.Context, c sqldb.Runner) error {
		r := &linkedBatch{store: s, c: c, session: 0} // nobody owns the fires
		for _, id := range ids {
			r.outcomes = append(
				r.outcomes,
				timer.Outcome{Fire: timer.Fire{FireID: id}, Serial: true},
			)
		}
		if err := r.lock(ctx); err != nil {
			return err
		}
		r.outcomes = r.outcomes[:0]
		for _, id := range ids {
			f, open := r.rows[id]
			if !open || f.Owner != 0 {
				continue
			}
			f.Owner = store.SystemSession // the session that records them
			r.outcomes = append(r.outcomes, timer.Outcome{
				Fire:       f,
				Kind:       timer.Skipped,
				Reason:     timer.ReasonCancelled,
				FinishedMS: r.nowMS,
				UntilMS:    f.DueMS,
				Count:      1,
				Attempts:   f.Attempt,
				LatenessMS: f.FirstLatenessMS,
				Hops:       f.Hops(r.nowMS),
				Serial:     true,
			})
		}
		if len(r.outcomes) == 0 {
			return nil
		}
		return r.finish(ctx, nil)
	})
}
