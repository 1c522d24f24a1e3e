package fires

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// DeadLetters takes no locks. It reads the attempts of the page after the outcomes.
// Both are final once a fire has failed.
func (s *Fires) DeadLetters(
	ctx context.Context,
	q store.DeadLetterQuery,
) (out store.DeadLetterPage, err error) {
	r, err := s.redriveOf(ctx, &q)
	if err != nil {
		return out, err
	}
	err = s.db.Read(
		ctx,
		"reading dead letters",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			found, err := r.selectFailed(ctx, c)
			if err != nil {
				return err
			}
			ids := make([]timer.FireID, len(found))
			for i := range found {
				ids[i] = found[i].FireID
			}
			lastErrors, err := history.LastErrors(ctx, s.db, c, ids)
			if err != nil {
				return err
			}
			out = store.DeadLetterPage{Next: r.out.Next}
			for _, o := range found {
				out.DeadLetters = append(
					out.DeadLetters,
					store.DeadLetter{Outcome: o, LastError: lastErrors[o.FireID]},
				)
			}
			return nil
		},
	)
	return out, err
}

// Redrive first finds outcomes without locks. It then locks their timers' rows in order of id and
// the outcomes, and reads again which ones others have redriven. So of two calls at once about one
// outcome, the second leaves it out. A call that dies halfway leaves a page as it was, or redriven
// as a whole. A repeated call finds the outcomes of its series, inserts nothing again, and returns
// those fires that nobody has claimed.
func (s *Fires) Redrive(
	ctx context.Context,
	q store.DeadLetterQuery,
) (out store.RedriveResult, err error) {
	if q.Series == 0 {
		return out, timer.Invalid("series", "a redrive has a series of its own")
	}
	r, err := s.redriveOf(ctx, &q)
	if err != nil {
		return out, err
	}
	err = s.db.Write(ctx, "redriving fires", func(ctx context.Context, c sqldb.Runner) error {
		try := *r
		try.c = c
		out = store.RedriveResult{}
		if err := try.run(ctx); err != nil {
			return err
		}
		out = try.out
		return nil
	})
	// With an error, out is what the last commit would have created: nobody knows whether it did.
	return out, err
}

// redriveOf returns a redrive of the query, with its limits.
func (s *Fires) redriveOf(ctx context.Context, q *store.DeadLetterQuery) (*redrive, error) {
	q.SetLimits()
	appID, err := s.apps.ID(ctx, q.App)
	return &redrive{store: s, q: q, appID: appID, series: int64(q.Series)}, err
}

// redrive is one transaction of Redrive, or one read of DeadLetters, which has no runner.
type redrive struct {
	store  *Fires
	c      sqldb.Runner
	q      *store.DeadLetterQuery
	appID  int64
	series int64
	out    store.RedriveResult
}

func (r *redrive) run(ctx context.Context) error {
	found, err := r.selectFailed(ctx, r.c)
	if err != nil || len(found) == 0 {
		return err
	}
	timers, err := r.lock(ctx, found)
	if err != nil {
		return err
	}
	return r.make(ctx, timers)
}

// lock locks the timers, then the outcomes, and keeps those that are still to be redriven.
func (r *redrive) lock(
	ctx context.Context,
	found []timer.Outcome,
) (map[timer.ID]*timer.Timer, error) {
	ids := make([]timer.ID, len(found))
	keys := make([]history.OutcomeKey, len(found))
	for i := range found {
		ids[i], keys[i] = found[i].Timer, history.KeyOf(&found[i])
	}
	timers, _, err := r.store.timers.LockAll(ctx, r.c, ids, nil)
	if err != nil {
		return nil, err
	}
	var rows []history.OutcomeRow
	q := history.InKeys(sqldb.Stmt(
		"SELECT "+history.OutcomeColumns+" FROM outcomes"+r.store.db.Dialect.ByPrimary+" WHERE ",
	), r.store.db.Dialect, keys)
	q.Add(" ORDER BY finished_ms,timer_id,due_ms,series" + r.store.db.Dialect.ForUpdate)
	if err := r.store.db.SelectAll(ctx, r.c, &rows, q); err != nil {
		return nil, err
	}
	for i := range rows {
		o := rows[i].Outcome()
		if t := timers[o.Timer]; t == nil || t.Status == timer.StatusDeleted {
			continue
		}
		if r.q.IncludeRedriven || o.Redriven == 0 || o.Redriven == r.series {
			r.out.Outcomes = append(r.out.Outcomes, o)
		}
	}
	return timers, nil
}

// make inserts a fire for each outcome and writes the series to the outcome. Two outcomes of one
// due instant, one of them a redrive's, get one fire.
func (r *redrive) make(ctx context.Context, timers map[timer.ID]*timer.Timer) error {
	s := r.store
	nowMS, err := s.db.NowMS(ctx, r.c)
	if err != nil {
		return err
	}
	var fires []timer.Fire
	var noted []history.OutcomeKey
	for i := range r.out.Outcomes {
		o := &r.out.Outcomes[i]
		t := timers[o.Timer]
		if o.Redriven != r.series {
			noted = append(noted, history.KeyOf(o))
		}
		o.Redriven = r.series
		fires = append(fires, timer.Fire{
			FireID: timer.FireID{
				Timer:  o.Timer,
				DueMS:  o.DueMS,
				Series: r.series,
			},
			RunAtMS:       nowMS,
			AppID:         o.AppID,
			Version:       t.Version,
			Epoch:         t.ActiveEpoch,
			Cause:         timer.CauseRedrive,
			State:         timer.FireReady,
			PriorityLevel: t.Definition.Priority.PriorityLevel(),
		})
	}
	slices.SortFunc(fires, timer.CompareFires)
	fires = slices.CompactFunc(fires, sameFire)
	there, err := s.stillOpen(ctx, r.c, sqldb.IDsOf(fires))
	if err != nil {
		return err
	}
	done, err := s.history.Finished(ctx, r.c, sqldb.IDsOf(fires))
	if err != nil {
		return err
	}
	var created []timer.Fire
	for _, f := range fires {
		row, open := there[f.FireID]
		switch {
		case !open && !done[f.FireID]:
			created = append(created, f)
			r.out.Fires = append(r.out.Fires, f)
		case open && row.Owner == 0 && row.State == timer.FireReady && row.Attempt == 0:
			r.out.Fires = append(r.out.Fires, row)
		}
	}
	if err := s.refuseFrozen(ctx, r.c, r.q.App, len(created)); err != nil {
		return err
	}
	if err := s.fires.Insert(ctx, r.c, created); err != nil {
		return err
	}
	if err := s.timers.Keep(ctx, r.c, timers); err != nil {
		return err
	}
	for part := range sqldb.Batches(noted) {
		q := sqldb.Stmt("UPDATE outcomes" + s.db.Dialect.ByPrimary + " SET redrive_series=").
			Int(r.series).
			Add(" WHERE ")
		history.InKeys(q, s.db.Dialect, part)
		if _, err := s.db.Exec(ctx, r.c, q); err != nil {
			return err
		}
	}
	if len(noted) == 0 {
		return nil
	}
	e, err := store.AuditRedriven(r.q, len(noted))
	return s.audit.Add(ctx, r.c, r.appID, nowMS, e, err)
}
