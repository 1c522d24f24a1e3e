package sqlstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// finishSkew is how far from the database's clock a caller may say that a fire was completed. It
// leaves most of Settled to the commit.
const finishSkew = store.VisibilityDelay / 3

// Complete locks as recordLinked does: the timer's row, then those of all fires that it may touch,
// in order of their keys. Of two completions at once the second sees what the first left, and so of
// a completion and whoever records the fire. The timeout's claim is a write of the row: it comes
// after, and finds none, or another revision; or it comes before, and loses the fire, for what it
// does next asks for its owner. A call that dies halfway has done nothing. Repeated, it finds the
// outcome, or the attempt, that it wrote.
//
// Whether the timer lets one fire run at a time need not be read from the definition, which may
// have been another one when the fire entered: the turn and the queue say it.
func (s *Store) Complete(
	ctx context.Context,
	app string,
	c store.Completion,
) (out store.CompletionResult, err error) {
	if err := s.ownTimer(ctx, app, c.Timer); err != nil {
		return store.CompletionResult{}, err
	}
	err = s.write(ctx, "completing a fire", func(ctx context.Context, tx runner) error {
		k := &completionBatch{
			request: &c,
			record:  linkedBatch{store: s, c: tx, session: store.SystemSession, anyOwner: true},
		}
		out = store.CompletionResult{}
		if err := k.run(ctx); err != nil {
			return err
		}
		out = k.out
		return nil
	})
	// with an error: what the last commit would have made, of which nobody knows whether it did.
	return out, err
}

// completionBatch is one transaction of Complete.
type completionBatch struct {
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
	attempts, err := k.record.store.attempts(ctx, k.record.c, id)
	if err != nil {
		return err
	}
	row, open := k.record.rows[id]
	switch {
	case !open:
		return k.over(ctx, attempts)
	case row.Attempt < k.request.Attempt:
		k.out.State = store.CompletionTooEarly
	case row.Attempt == k.request.Attempt && row.State == timer.FireAccepted:
		if k.request.Failed != nil {
			return k.giveBack(ctx, row, attempts)
		}
		return k.deliver(ctx, row, attempts)
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

// over answers for a fire that is not open.
func (k *completionBatch) over(ctx context.Context, attempts []timer.Attempt) error {
	r := &k.record
	var done []outcomeRow
	err := r.store.selectAll(
		ctx,
		r.c,
		&done,
		stmt(
			"SELECT "+outcomeColumns+" FROM outcomes"+r.store.dialect.byTimer+" WHERE ",
		).ofFire(k.request.FireID),
	)
	if err != nil {
		return err
	}
	if len(done) == 0 {
		return timer.NotFound("fire", k.request.FireID)
	}
	o := done[0].outcome()
	switch {
	case k.request.Failed == nil && o.Kind == timer.Delivered && o.Owner == store.SystemSession && o.Attempts == k.request.Attempt:
		k.out.State = store.CompletionRepeated
		if err := r.finish(ctx, nil); err != nil { // which ends nothing, and finds what was set off
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

// failedBefore tells whether this failure of this attempt is recorded already.
func (k *completionBatch) failedBefore(attempts []timer.Attempt) bool {
	f := k.request.Failed
	if f == nil {
		return false
	}
	for i := range attempts {
		a := &attempts[i]
		if a.N == k.request.Attempt && a.Failure == f.Failure && a.StatusCode == f.StatusCode &&
			a.Error == clip(f.Error, timer.MaxExcerpt) &&
			a.Excerpt == clip(f.Excerpt, timer.MaxExcerpt) {
			return true
		}
	}
	return false
}

// deliver records the fire. Status and duration are those of the attempt that was accepted.
func (k *completionBatch) deliver(
	ctx context.Context,
	row timer.Fire,
	attempts []timer.Attempt,
) error {
	r := &k.record
	o := &r.outcomes[0]
	o.Fire = row
	o.Owner = store.SystemSession
	o.Kind, o.UntilMS, o.Count = timer.Delivered, row.DueMS, 1
	o.Attempts, o.LatenessMS = row.Attempt, row.FirstLatenessMS
	if o.FinishedMS = r.nowMS; max(
		k.request.FinishedMS-r.nowMS,
		r.nowMS-k.request.FinishedMS,
	) <= finishSkew.Milliseconds() {
		o.FinishedMS = k.request.FinishedMS
	}
	for i := range attempts {
		if attempts[i].N == k.request.Attempt {
			o.StatusCode, o.DurationMS = attempts[i].StatusCode, attempts[i].DurationMS
		}
	}
	if err := r.finish(ctx, nil); err != nil {
		return err
	}
	k.out = store.CompletionResult{State: store.CompletionAccepted, Fires: r.started}
	return nil
}

// release gives the fire back for dispatch, for its retry policy to say what becomes of it, at
// once, in bucket 0, which every minute has. It keeps its turn.
func (k *completionBatch) giveBack(
	ctx context.Context,
	row timer.Fire,
	attempts []timer.Attempt,
) error {
	r := &k.record
	row.State, row.RunAtMS, row.Bucket, row.Owner, row.Sweeps = timer.FireAsyncFailed, r.nowMS, 0, 0, 0
	row.Rev++
	if err := r.store.saveFires(ctx, r.c, []timer.Fire{row}, releaseColumns...); err != nil {
		return err
	}
	a := *k.request.Failed
	a.FireID, a.N = row.FireID, k.request.Attempt
	if a.StartMS == 0 {
		a.StartMS = r.nowMS - a.DurationMS
	}
	// The acceptance is recorded as the same attempt: the two are told apart by their ends.
	for slices.ContainsFunc(attempts, func(b timer.Attempt) bool {
		return b.N == a.N && b.Target == a.Target && b.StartMS+b.DurationMS == a.StartMS+a.DurationMS
	}) {
		a.DurationMS++
	}
	k.out = store.CompletionResult{State: store.CompletionAccepted, Fires: []timer.Fire{row}}
	return r.store.insertAttempts(ctx, r.c, []timer.Attempt{a})
}
