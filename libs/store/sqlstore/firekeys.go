package sqlstore

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

func idsOf(fires []timer.Fire) []timer.FireID {
	ids := make([]timer.FireID, len(fires))
	for i := range fires {
		ids[i] = fires[i].FireID
	}
	return ids
}

const fireKey = "due_ms,timer_id,series"

// fires adds "(due_ms,timer_id,series) IN (…)". ids must not be empty and must be sorted by primary
// key.
func (q *statement) fires(d *dialect, ids []timer.FireID) *statement {
	if len(ids) == 1 {
		return q.equalTo(fireKey, ids[0].DueMS, int64(ids[0].Timer), ids[0].Series)
	}
	q.add("(" + fireKey + ") IN (" + d.tuples)
	for i, id := range ids {
		q.row(i == 0, id.DueMS, int64(id.Timer), id.Series)
	}
	return q.add(")")
}

// sortedIDs sorts ids in the order of fires.
func sortedIDs(ids []timer.FireID) []timer.FireID {
	slices.SortFunc(ids, timer.CompareFireIDs)
	return slices.Compact(ids)
}

type fireIDRow struct {
	DueMS  int64 `db:"due_ms"`
	Timer  int64 `db:"timer_id"`
	Series int64 `db:"series"`
}

func (r fireIDRow) id() timer.FireID {
	return timer.FireID{DueMS: r.DueMS, Timer: timer.ID(r.Timer), Series: r.Series}
}
