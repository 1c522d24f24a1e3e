package fires

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// finishSkew is how far from the database's clock the end of a completion may be. It leaves most of
// VisibilityDelay to the commit.
const finishSkew = store.VisibilityDelay / 3

// Complete locks like recordLinked: the timer's row, then all fires that it may change, in order of
// their keys. The second of two completions at once sees the result of the first. The same holds
// for a completion and a Record of the fire.
//
// The claim after the timeout writes the row. If it comes after the completion, it finds no row or
// another revision. If it comes before, it loses the fire, since its next step requires ownership.
// A call that dies halfway has changed nothing. A repeated call finds the outcome or the attempt
// that it wrote.
//
// Complete need not read whether the timer runs one fire at a time. The definition may have changed
// since the fire got its slot, but the slot and the queue are in the rows.
func (s *Fires) Complete(
	ctx context.Context,
	app string,
	c store.Completion,
) (out store.CompletionResult, err error) {
	if err := s.timers.CheckApp(ctx, app, c.Timer); err != nil {
		return store.CompletionResult{}, err
	}
	err = s.db.Write(ctx, "completing a fire", func(ctx context.Context, tx sqldb.Runner) error {
		k := &completionBatch{
			trail:   s.audit,
			request: &c,
			record: linkedBatch{
				store:    s.fires,
				c:        tx,
				session:  store.SystemSession,
				anyOwner: true,
			},
		}
		out = store.CompletionResult{}
		if err := k.run(ctx); err != nil {
			return err
		}
		out = k.out
		return nil
	})
	// With an error, out is what the last commit would have done: nobody knows whether it did.
	return out, err
}

// completionBatch is one transaction of Complete.
type completionBatch struct {
	trail   *audit.Trail
	request *store.Completion
	record  linkedBatch
	out     store.CompletionResult
}

func (k *completionBatch) run(ctx context.Context) error {
	id := k.request.FireID
	o := timer.Outcome{Fire: timer.Fire{FireID: id}}
	if k.request.Failed == nil {
		o.Serial, o.Next = true, k.request.Next
	}
	k.record.outcomes = []timer.Outcome{o}
	if err := k.record.lock(ctx); err != nil {
		return err
	}
	attempts, err := k.record.store.history.Attempts(ctx, k.record.c, id)
	if err != nil {
		return err
	}
	row, open := k.record.rows[id]
	switch {
	case !open:
		return k.finished(ctx, attempts)
	case row.Attempt < k.request.Attempt:
		k.out.State = store.CompletionTooEarly
	case row.Attempt == k.request.Attempt && row.State == timer.FireAccepted &&
		k.request.Target&^row.TargetBits == 0:
		if k.request.Failed != nil {
			return k.releaseFailed(ctx, row, attempts)
		}
		return k.recordDelivered(ctx, row, attempts)
	case k.failedBefore(attempts):
		k.out.State = store.CompletionRepeated
		if row.Owner == 0 && row.State == timer.FireAsyncFailed &&
			row.Attempt == k.request.Attempt {
			k.out.Fires = []timer.Fire{row}
		}
	default:
		k.out.State = store.CompletionTooLate
	}
	return nil
}

// finished answers for a fire that is not open.
func (k *completionBatch) finished(ctx context.Context, attempts []timer.Attempt) error {
	r := &k.record
	var done []history.OutcomeRow
	err := r.store.db.SelectAll(
		ctx,
		r.c,
		&done,
		history.OfFire(sqldb.Stmt(
			"SELECT "+history.OutcomeColumns+" FROM outcomes"+r.store.db.Dialect.ByTimer+" WHERE ",
		), k.request.FireID),
	)
	if err != nil {
		return err
	}
	if len(done) == 0 {
		return timer.NotFound("fire", k.request.FireID)
	}
	o := done[0].Outcome()
	switch {
	case k.request.Failed == nil && o.Kind == timer.Delivered && o.Owner == store.SystemSession && o.Attempts == k.request.Attempt:
		k.out.State = store.CompletionRepeated
		if err := r.finish(ctx, nil); err != nil { // records nothing, but finds the started fires
			return err
		}
		k.out.Fires = r.started
	case k.failedBefore(attempts):
		k.out.State = store.CompletionRepeated
	default:
		k.out.State = store.CompletionTooLate
	}
	return nil
}

// failedBefore reports whether this failure of this attempt is recorded already.
func (k *completionBatch) failedBefore(attempts []timer.Attempt) bool {
	f := k.request.Failed
	if f == nil {
		return false
	}
	for i := range attempts {
		a := &attempts[i]
		if a.N == k.request.Attempt && a.Failure == f.Failure && a.StatusCode == f.StatusCode &&
			a.Error == sqldb.Clip(f.Error, timer.MaxExcerpt) &&
			a.Excerpt == sqldb.Clip(f.Excerpt, timer.MaxExcerpt) {
			return true
		}
	}
	return false
}

// recordDelivered records the fire, with status and duration of the attempt that was accepted. A
// completion may have waited here while the fire was called again. The fire does not end before that
// attempt.
func (k *completionBatch) recordDelivered(
	ctx context.Context,
	row timer.Fire,
	attempts []timer.Attempt,
) error {
	r := &k.record
	o := &r.outcomes[0]
	o.Fire = row
	o.Owner = store.SystemSession
	o.Kind, o.UntilMS, o.Count = timer.Delivered, row.DueMS, 1
	o.Attempts, o.LatenessMS, o.Hops = row.Attempt, row.FirstLatenessMS, row.Hops(r.nowMS)
	if o.FinishedMS = r.nowMS; max(
		k.request.FinishedMS-r.nowMS,
		r.nowMS-k.request.FinishedMS,
	) <= finishSkew.Milliseconds() {
		o.FinishedMS = k.request.FinishedMS
	}
	for i := range attempts {
		if attempts[i].N == k.request.Attempt {
			o.StatusCode, o.DurationMS = attempts[i].StatusCode, attempts[i].DurationMS
			o.FinishedMS = max(o.FinishedMS, min(attempts[i].EndMS(), r.nowMS))
		}
	}
	if err := r.finish(ctx, nil); err != nil {
		return err
	}
	k.out = store.CompletionResult{State: store.CompletionAccepted, Fires: r.started}
	return k.audit(ctx, row.AppID)
}

// audit adds a completion that counts to the audit trail. A repeated one adds nothing.
func (k *completionBatch) audit(ctx context.Context, appID int64) error {
	e, err := store.AuditFireCompleted(k.request)
	return k.trail.Add(ctx, k.record.c, appID, k.record.nowMS, e, err)
}

// releaseFailed releases the fire to run now, in bucket 0, which every minute has. Its retry policy
// then decides. The fire keeps its slot.
func (k *completionBatch) releaseFailed(
	ctx context.Context,
	row timer.Fire,
	attempts []timer.Attempt,
) error {
	r := &k.record
	row.State, row.RunAtMS, row.Bucket, row.Owner = timer.FireAsyncFailed, r.nowMS, 0, 0
	row.Rev++
	if err := r.store.Save(ctx, r.c, []timer.Fire{row}, releaseColumns...); err != nil {
		return err
	}
	a := *k.request.Failed
	a.FireID, a.N = row.FireID, k.request.Attempt
	if a.StartMS == 0 {
		a.StartMS = r.nowMS - a.DurationMS
	}
	// The acceptance is recorded under the same attempt number. The ends tell the two records
	// apart.
	for slices.ContainsFunc(attempts, func(b timer.Attempt) bool {
		return b.N == a.N && b.Target == a.Target && b.EndMS() == a.EndMS()
	}) {
		a.DurationMS++
	}
	k.out = store.CompletionResult{State: store.CompletionAccepted, Fires: []timer.Fire{row}}
	if err := r.store.history.InsertAttempts(ctx, r.c, []timer.Attempt{a}); err != nil {
		return err
	}
	return k.audit(ctx, row.AppID)
}
