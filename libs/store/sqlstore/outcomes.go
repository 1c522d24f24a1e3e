package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *Store) insertOutcomes(
	ctx context.Context, c runner, outcomes []timer.Outcome, attempts []timer.Attempt,
) error {
	sorted := slices.Clone(outcomes)
	slices.SortFunc(sorted, func(a, b timer.Outcome) int {
		return cmp.Or(
			cmp.Compare(a.FinishedMS, b.FinishedMS),
			cmp.Compare(a.Timer, b.Timer),
			timer.CompareFires(a.Fire, b.Fire),
		)
	})
	const into = "INSERT INTO outcomes (" + outcomeColumns + ") VALUES "
	for q, part := range insertBlocks(s.dialect, sorted, into) {
		for i := range part {
			addOutcome(q, i == 0, &part[i])
		}
		if _, err := s.exec(ctx, c, q.add(s.dialect.onConflictNothing("series"))); err != nil {
			return err
		}
		if err := s.insertFailures(ctx, c, part); err != nil {
			return err
		}
	}
	return s.insertAttempts(ctx, c, attempts)
}

// finished returns which of the fires have an outcome.
func (s *Store) finished(
	ctx context.Context,
	c sqlx.QueryerContext,
	ids []timer.FireID,
) (map[timer.FireID]bool, error) {
	return s.finishedBy(ctx, c, ids, 0)
}

// finishedBy returns which of the fires have an outcome that the session recorded; 0 is any
// session.
func (s *Store) finishedBy(
	ctx context.Context, c sqlx.QueryerContext, ids []timer.FireID, session timer.ID,
) (map[timer.FireID]bool, error) {
	done := map[timer.FireID]bool{}
	for part := range batches(ids) {
		q := stmt(
			"SELECT " + fireKey + " FROM outcomes" + s.dialect.byTimer + " WHERE (timer_id,due_ms) IN (" + s.dialect.tuples,
		)
		for i, id := range part {
			q.row(i == 0, int64(id.Timer), id.DueMS)
		}
		if q.add(")"); session != 0 {
			q.add(" AND owner=").int(int64(session))
		}
		var rows []fireIDRow
		if err := s.selectAll(ctx, c, &rows, q); err != nil {
			return nil, err
		}
		for _, r := range rows {
			done[r.id()] = true
		}
	}
	return done, nil
}

func firesOf(outcomes []timer.Outcome) []timer.Fire {
	fires := make([]timer.Fire, len(outcomes))
	for i := range outcomes {
		fires[i] = outcomes[i].Fire
	}
	return fires
}
