package history

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// CountOutcomes groups in the database, so that a row leaves it per group and not per fire. The
// first statement finds the instant at which the scan ends. Fires that are recorded in between are
// counted or not.
func (s *Reader) CountOutcomes(
	ctx context.Context,
	query store.OutcomeQuery,
	stepMS int64,
) (out store.OutcomeCounts, err error) {
	query.Ascending, query.After, query.Limit = false, store.OutcomePosition{}, 0
	h, err := s.appHistory(ctx, query)
	if err != nil || h.appID == 0 {
		return store.OutcomeCounts{FromMS: query.FromMS}, err
	}
	err = s.db.Read(
		ctx,
		"counting an app's finished fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			out = store.OutcomeCounts{FromMS: query.FromMS}
			bounded := *h
			end, err := h.scanEnd(ctx, c)
			if err != nil {
				return err
			}
			if len(end) > 0 {
				out.FromMS, bounded.q.FromMS = end[0].FinishedMS, end[0].FinishedMS
			}
			var rows []outcomeCountRow
			if err := s.db.SelectAll(ctx, c, &rows, bounded.counting(stepMS)); err != nil {
				return err
			}
			for i := range rows {
				out.Counts = append(out.Counts, rows[i].count())
			}
			return nil
		},
	)
	return out, err
}

type outcomeCountRow struct {
	StepMS     int64  `db:"step_ms"`
	Kind       string `db:"kind"`
	Reason     string `db:"reason"`
	LatenessMS int64  `db:"late_ms"`
	Outcomes   int64  `db:"outcomes"`
	Fires      int64  `db:"fires"`
}

func (r *outcomeCountRow) count() store.OutcomeCount {
	return store.OutcomeCount{
		StepMS:     r.StepMS,
		Kind:       timer.OutcomeKind(r.Kind),
		Reason:     timer.Reason(r.Reason),
		LatenessMS: r.LatenessMS,
		Outcomes:   r.Outcomes,
		Fires:      r.Fires,
	}
}

// counting counts the matching fires of the range.
func (h *appHistory) counting(stepMS int64) *sqldb.Statement {
	q := sqldb.Stmt("SELECT k.finished_ms-k.finished_ms%").Int(stepMS).Add(" AS step_ms,").
		Add(h.row + ".kind AS kind," + h.row + ".reason AS reason,")
	h.latenessBucket(q)
	q.Add(" AS late_ms,COUNT(*) AS outcomes,SUM(" + h.row + ".fire_count) AS fires FROM ")
	h.fromRows(q)
	h.filter(q)
	return q.Add(" GROUP BY 1,2,3,4")
}

// latenessBucket adds store.LatenessBucket, or NotCalled for a fire without an attempt.
func (h *appHistory) latenessBucket(q *sqldb.Statement) {
	late := h.row + ".lateness_ms"
	q.Add("CASE WHEN " + h.row + ".attempts=0 THEN ").Int(store.NotCalled).
		Add(" WHEN " + late + "<=0 THEN 0")
	const exact = 64 // the first lateness whose bucket is wider than 1 ms
	for octave := range store.LatenessOctaves {
		q.Add(" WHEN " + late + "<").Int(exact << octave).
			Add(" THEN " + late + "-" + late + "%").Int(1 << octave)
	}
	q.Add(" ELSE " + late + "-" + late + "%").Int(1 << store.LatenessOctaves).Add(" END")
}
