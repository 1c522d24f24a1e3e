package scheduling

import (
	"context"
	"errors"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// errBadBackfill means that a planner broke the rules that keep a fire of a backfill from being
// inserted twice.
var errBadBackfill = errors.New(
	"the plan of the backfill goes back, repeats itself, or is another's",
)

// ExpandBackfills locks backfills and skips those that others have locked, then locks their timers
// in order of id. Two calls at once share the work, and the locks of a call that dies end with its
// connection. next_ms never moves back, so no fire is inserted twice. A backfill whose plan fails
// is postponed and stops no other. A backfill whose timer is deleted, or is a fixed delay by then, is
// cancelled: no plan of it ever succeeds.
func (s *Scheduling) ExpandBackfills(
	ctx context.Context, limit int, plan store.BackfillPlanner,
) (fires []timer.Fire, n int, err error) {
	work := func(ctx context.Context, c sqldb.Runner) error {
		fires, n = nil, 0
		var rows []backfillRow
		q := s.fromDueBackfills(sqldb.Stmt("SELECT " + backfillColumns)).
			Add(" ORDER BY expand_at_ms LIMIT ").
			Int(int64(limit)).
			Add(s.db.SkipLocked())
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]timer.ID, len(rows))
		for i := range rows {
			ids[i] = timer.ID(rows[i].Timer)
		}
		byID, err := s.timers.Lock(ctx, c, ids)
		if err != nil {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		var made []timer.Fire
		slices.SortFunc(rows, func(a, b backfillRow) int { return int(a.ID - b.ID) })
		for i := range rows {
			planned, again := s.planBackfill(&rows[i], byID[timer.ID(rows[i].Timer)], plan, nowMS)
			made = append(made, planned...)
			if err := s.saveBackfill(ctx, c, &rows[i], again); err != nil {
				return err
			}
		}
		if err := s.fires.Insert(ctx, c, made); err != nil {
			return err
		}
		if err := s.timers.Keep(ctx, c, byID); err != nil {
			return err
		}
		fires, n = made, len(rows)
		return nil
	}
	err = s.withoutUnreadable(ctx, ofBackfills, planRetryDelay, func() error {
		return s.db.Write(ctx, "expanding backfills", work)
	})
	// With an error, fires is what the last commit would have created: nobody knows whether it did.
	return fires, n, err
}

// planBackfill advances a backfill and returns its fires, and when it is due for expansion next.
func (s *Scheduling) planBackfill(
	row *backfillRow, t *timer.Timer, plan store.BackfillPlanner, nowMS int64,
) (fires []timer.Fire, againMS int64) {
	if t == nil || t.Status == timer.StatusDeleted ||
		t.Definition.Schedule.Kind == timer.KindFixedDelay { // an edit made it one: it has no past
		row.Status = rowBackfillCancelled
		return nil, nowMS
	}
	b := row.backfill(t.App)
	fires, nextMS, err := plan(t, &b, nowMS)
	if err == nil {
		err = checkBackfill(t, row, fires, nextMS)
	}
	if err != nil {
		s.db.Log.Warn().Err(err).Int64("backfill", row.ID).Msg("backfill cannot be expanded")
		return nil, nowMS + planRetryDelay.Milliseconds()
	}
	row.NextMS, row.Created = nextMS, row.Created+int64(len(fires))
	if nextMS >= row.ToMS || row.Created >= store.MaxBackfillFires {
		row.Status = rowBackfillDone
	}
	return fires, nowMS
}

func checkBackfill(t *timer.Timer, row *backfillRow, fires []timer.Fire, nextMS int64) error {
	slices.SortFunc(fires, timer.CompareFires)
	last := row.NextMS - 1
	for i := range fires {
		f := &fires[i]
		if f.Timer != t.ID || f.Series != row.ID || f.DueMS <= last || f.DueMS >= row.ToMS {
			return errBadBackfill
		}
		last = f.DueMS
		f.AppID, f.Version, f.Epoch = t.AppID, t.Version, t.ActiveEpoch
		f.Rev, f.Owner, f.TargetBits = 0, 0, 0
	}
	if last >= nextMS {
		return errBadBackfill // it did not advance, or not past its own fires
	}
	return nil
}

func (s *Scheduling) saveBackfill(
	ctx context.Context,
	c sqldb.Runner,
	row *backfillRow,
	againMS int64,
) error {
	_, err := s.db.Exec(
		ctx,
		c,
		sqldb.Stmt(
			"UPDATE backfills SET next_ms=",
		).Int(row.NextMS).
			Add(",fires_created=").
			Int(row.Created).
			Add(",status=").
			Int(row.Status).
			Add(",expand_at_ms=").
			Int(againMS).
			Add(" WHERE id=").
			Int(row.ID),
	)
	return err
}
