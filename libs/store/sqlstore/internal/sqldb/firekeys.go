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

// preparedFires is how many fires the prepared forms of a short list of fires have.
var preparedFires = [...]int{4, 16, 64}

// FiresPrepared is Fires, as the first part of a statement with values. On SQLite the plan of a short
// list costs more than its rows, so such a statement is prepared: the list is filled up with its
// last fire, and so has one of a few lengths.
func (q *Statement) FiresPrepared(d *Dialect, ids []timer.FireID) *Statement {
	if len(d.PreparedRows) == 0 {
		return q.Fires(d, ids)
	}
	for _, n := range preparedFires {
		if len(ids) > n {
			continue
		}
		q.Prepared = true
		if len(ids) > 1 {
			ids = append(slices.Clone(ids), slices.Repeat(ids[len(ids)-1:], n-len(ids))...)
		}
		break
	}
	return q.Fires(d, ids)
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
