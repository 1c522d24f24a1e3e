package delivery

import (
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Attempt is an attempt with its result.
type Attempt struct {
	callback.Result

	Number   int32
	Start    time.Time
	Took     time.Duration
	Recorded bool // its record is already written

	// Until is when a target may be called that its breaker refused while another one was called;
	// zero: there is none.
	Until time.Time
}

// triedBits are the targets of the attempt that were called in vain.
func (a *Attempt) triedBits() timer.TargetBits {
	var bits timer.TargetBits
	for i := range a.Targets {
		t := &a.Targets[i]
		if t.Class == callback.Retry && t.Failure != timer.FailureCircuit {
			bits |= timer.TargetGivenUp << t.Index
		}
	}
	return bits
}

// Records returns its records: one, or one per target.
func (a *Attempt) Records(id timer.FireID) []timer.Attempt {
	if a.Recorded {
		return nil
	}
	if len(a.Targets) == 0 {
		return []timer.Attempt{
			{
				FireID:     id,
				N:          a.Number,
				StartMS:    a.Start.UnixMilli(),
				DurationMS: a.Took.Milliseconds(),
				StatusCode: a.StatusCode,
				Error:      a.Error,
				Excerpt:    a.Excerpt,
				Failure:    a.Failure,
			},
		}
	}
	all := make([]timer.Attempt, len(a.Targets))
	for i := range a.Targets {
		t := &a.Targets[i]
		all[i] = timer.Attempt{
			FireID:     id,
			N:          a.Number,
			StartMS:    t.Start.UnixMilli(),
			DurationMS: t.Duration.Milliseconds(),
			Target:     t.Name,
			StatusCode: t.StatusCode,
			Error:      t.Error,
			Excerpt:    t.Excerpt,
			Failure:    t.Failure,
		}
	}
	return all
}
