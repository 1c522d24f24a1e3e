package history

import (
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Lengths of the columns.
const (
	MaxKind    = 16
	MaxReason  = 32
	maxFailure = 16
)

// OutcomeColumns are those of OutcomeRow.
const OutcomeColumns = "finished_ms,timer_id,due_ms,series,until_ms,fire_count,run_at_ms,app_id,version,epoch,cause,revision,owner,kind,reason," +
	"attempts,lateness_ms,status_code,duration_ms,redrive_series,failure,path,task_age_ms,held_ms,waited_for,waited_ms"

// OutcomeRow is a row of outcomes.
type OutcomeRow struct {
	FinishedMS int64  `db:"finished_ms"`
	Timer      int64  `db:"timer_id"`
	DueMS      int64  `db:"due_ms"`
	Series     int64  `db:"series"`
	UntilMS    int64  `db:"until_ms"`
	Fires      int64  `db:"fire_count"`
	RunAtMS    int64  `db:"run_at_ms"`
	AppID      int64  `db:"app_id"`
	Version    int32  `db:"version"`
	Epoch      int64  `db:"epoch"`
	Cause      uint8  `db:"cause"`
	Rev        int32  `db:"revision"`
	Owner      int64  `db:"owner"`
	Kind       string `db:"kind"`
	Reason     string `db:"reason"`
	Attempts   int32  `db:"attempts"`
	LatenessMS int64  `db:"lateness_ms"`
	StatusCode int32  `db:"status_code"`
	DurationMS int64  `db:"duration_ms"`
	Redriven   int64  `db:"redrive_series"`
	Failure    string `db:"failure"`
	Path       uint8  `db:"path"`
	TaskAgeMS  int64  `db:"task_age_ms"`
	HeldMS     int64  `db:"held_ms"`
	WaitedFor  uint8  `db:"waited_for"`
	WaitedMS   int64  `db:"waited_ms"`
}

// Outcome returns the row's outcome.
func (r OutcomeRow) Outcome() timer.Outcome {
	return timer.Outcome{
		Fire: timer.Fire{
			FireID: timer.FireID{
				Timer:  timer.ID(r.Timer),
				DueMS:  r.DueMS,
				Series: r.Series,
			},
			RunAtMS:         r.RunAtMS,
			AppID:           r.AppID,
			Version:         r.Version,
			Epoch:           r.Epoch,
			Cause:           timer.Cause(r.Cause),
			Rev:             r.Rev,
			Owner:           timer.ID(r.Owner),
			Attempt:         r.Attempts,
			FirstLatenessMS: r.LatenessMS,
		},
		Kind: timer.OutcomeKind(
			r.Kind,
		),
		Reason:     timer.Reason(r.Reason),
		FinishedMS: r.FinishedMS,
		UntilMS:    r.UntilMS,
		Count:      r.Fires,
		Attempts:   r.Attempts,
		LatenessMS: r.LatenessMS,
		StatusCode: r.StatusCode,
		DurationMS: r.DurationMS,
		Failure:    timer.Failure(r.Failure),
		Redriven:   r.Redriven,
		Hops:       r.hops(),
	}
}

func (r OutcomeRow) hops() timer.Hops {
	return store.HopsRow{
		Path:      timer.Path(r.Path),
		TaskAgeMS: r.TaskAgeMS,
		HeldMS:    r.HeldMS,
		WaitedFor: timer.Wait(r.WaitedFor),
		WaitedMS:  r.WaitedMS,
	}.Hops(r.FinishedMS)
}

func addOutcome(q *sqldb.Statement, first bool, o *timer.Outcome) *sqldb.Statement {
	h := store.StoredHops(&o.Hops, o.FinishedMS)
	return q.Open(first).
		Ints(o.FinishedMS, int64(o.Timer), o.DueMS, o.Series, o.UntilMS, o.Count, o.RunAtMS, o.AppID,
			int64(o.Version), o.Epoch, int64(o.Cause), int64(o.Rev), int64(o.Owner)).
		Add(",").
		Literal(string(o.Kind)).
		Add(",").
		Literal(string(o.Reason)).
		Add(",").
		Ints(int64(o.Attempts), o.LatenessMS, int64(o.StatusCode), o.DurationMS, 0).
		Add(",").
		Literal(string(o.Failure)).
		Add(",").
		Ints(int64(h.Path), h.TaskAgeMS, h.HeldMS, int64(h.WaitedFor), h.WaitedMS).
		Add(")")
}

// MaxClockSkew is how far an executor's clock may be ahead of the database's. No fire that is due
// later than this has an outcome.
const MaxClockSkew = time.Minute
