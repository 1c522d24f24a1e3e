package sqldb

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

// IDsOf returns the ids of fires.
func IDsOf(fires []timer.Fire) []timer.FireID {
	ids := make([]timer.FireID, len(fires))
	for i := range fires {
		ids[i] = fires[i].FireID
	}
	return ids
}

// FireKey is the primary key of fires, which many tables have as columns.
const FireKey = "due_ms,timer_id,series"

// Fires adds "(due_ms,timer_id,series) IN (…)". ids must not be empty and must be sorted by primary
// key.
func (q *Statement) Fires(d *Dialect, ids []timer.FireID) *Statement {
	if len(ids) == 1 {
		return q.EqualTo(FireKey, ids[0].DueMS, int64(ids[0].Timer), ids[0].Series)
	}
	q.Add("(" + FireKey + ") IN (" + d.Tuples)
	for i, id := range ids {
		q.Row(i == 0, id.DueMS, int64(id.Timer), id.Series)
	}
	return q.Add(")")
}

// SortedIDs sorts ids in the order of fires.
func SortedIDs(ids []timer.FireID) []timer.FireID {
	slices.SortFunc(ids, timer.CompareFireIDs)
	return slices.Compact(ids)
}

// FireIDRow has the columns of FireKey.
type FireIDRow struct {
	DueMS  int64 `db:"due_ms"`
	Timer  int64 `db:"timer_id"`
	Series int64 `db:"series"`
}

// FireID returns the row as an id.
func (r FireIDRow) FireID() timer.FireID {
	return timer.FireID{DueMS: r.DueMS, Timer: timer.ID(r.Timer), Series: r.Series}
}
