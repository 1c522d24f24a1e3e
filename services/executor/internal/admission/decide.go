package admission

import (
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// Action is what happens to a due fire.
type Action uint8

// The actions.
const (
	Call     Action = iota // its attempt may start, as far as its timer decides
	Skip                   // it ends without a call, for a reason
	Reject                 // it ends as failed: its definition is missing
	GiveBack               // it needs a newer release, for an error
	Defer                  // it waits in the store until its timer is active
	Recheck                // it is decided again in a moment
	Wait                   // it waits for its run time, which was moved
	Queue                  // it waits in the store for its predecessor
	Drop                   // the session no longer owns it
	Fail                   // its accepted attempt counts as failed
	Read                   // the decision needs more to be read, see Verdict.Need
)

// Need is what a decision lacks.
type Need uint8

// The needs.
const (
	NeedBackfill    Need = iota + 1 // View.Cancelled
	NeedNextVersion                 // View.NextVersionMS
	NeedRow                         // View.Moved
	NeedLatest                      // View.Latest
	NeedOrder                       // View.InOrder
	NeedCatchUp                     // View.CatchesUp
	NeedSuccessor                   // View.Follows
	NeedSlot                        // View.Slot
)

// Verdict is what happens to a fire. The zero value allows the call.
type Verdict struct {
	Action Action
	Reason timer.Reason // of Skip
	Err    error        // of GiveBack
	Need   Need         // of Read
}

func skip(reason timer.Reason) Verdict { return Verdict{Action: Skip, Reason: reason} }
func read(need Need) Verdict           { return Verdict{Action: Read, Need: need} }

// Answer is what is known about a question.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota // not read
	Yes
	No
)

// AnswerOf returns Yes or No.
func AnswerOf(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// View is what is known of a fire's timer and of the fires beside it.
type View struct {
	State  timer.State
	Status Verdict // of State, see OfStatus
	NowMS  int64   // the time of the decision

	Cancelled Answer // the fire's backfill is cancelled
	// NextVersionMS is when the version after the fire's took effect, in unix ms. 0 is unknown, and
	// timer.NeverMS means that there is none.
	NextVersionMS int64
	Moved         Answer            // an edit or activation moved the fire's row to the newer version
	Latest        Answer            // the fire is among the latest that fire_all runs
	InOrder       Answer            // no earlier late fire of its timer waits
	CatchesUp     Answer            // the fire is the one that fire_once runs
	Slot          *store.SlotResult // of the fire's request for a concurrency slot; nil: none
	Follows       Answer            // this process can plan the fire that follows one of a fixed delay
	FollowsErr    error             // why not
}

// Decide returns what happens to a due fire. It has no effects. Where it lacks an answer it returns
// Read, and the caller decides again with the answer in the view.
func Decide(e *inflight.Entry, v *View) Verdict {
	if d := e.Def; d != nil && d.Unreadable != "" && v.Status.Reason != timer.ReasonDeleted {
		return unreadable(e, v)
	}
	if d := successor(e, v); d != (Verdict{}) {
		return d
	}
	switch {
	case v.Status.Action == Skip && v.Status.Reason == timer.ReasonFrozen && lastCallFailed(e, v.NowMS):
		// A freeze keeps fires from starting. This one would not start again.
	case v.Status.Action == Skip:
		return v.Status
	case e.Def == nil && v.Moved != No:
		// The task tells a version that there is not. After a restore, a task or window entry of the
		// lost deployment may do so: a fire that is made again claims by it, as the row has the same
		// revision. The row tells the version that there is.
		return read(NeedRow)
	case e.Def == nil:
		return Verdict{Action: Reject}
	}
	if err := checkKnown(&e.Fire, e.Def); err != nil {
		return Verdict{Action: GiveBack, Err: err}
	}
	if v.Status.Action == Defer {
		return v.Status
	}
	if e.Fire.Cause == timer.CauseBackfill && v.Cancelled != No {
		if v.Cancelled == Unknown {
			return read(NeedBackfill)
		}
		return skip(timer.ReasonCancelled)
	}
	if e.Fire.Series == 0 && e.Fire.Attempt == 0 {
		if d := planned(e, v); d != (Verdict{}) {
			return d
		}
	}
	policy := e.Concurrency().Policy
	if acceptedFailed(e) && (e.Fire.Series != 0 || policy != timer.ConcurrencyCancelPrevious) {
		// First, because a fire that waits for the slot forgets that its attempt has failed. The next
		// attempt asks for the slot. Only one of the schedule may have been replaced, and then ends so.
		return Verdict{Action: Fail}
	}
	if policy != timer.ConcurrencyAllow {
		if v.Slot == nil {
			return read(NeedSlot)
		}
		if d := slot(v.Slot.SlotVerdict); d != (Verdict{}) {
			return d
		}
	}
	if acceptedFailed(e) {
		return Verdict{Action: Fail}
	}
	return Verdict{}
}

// unreadable decides about a fire whose definition cannot be read. What a status decides depends on
// the kind of the schedule, except for a deletion. A version that replaced it takes the fires that
// are due since then from it, of whatever kind it is.
func unreadable(e *inflight.Entry, v *View) Verdict {
	if e.Fire.Series == 0 && e.Fire.Attempt == 0 && v.Status.Action == Call {
		switch over := superseded(e, v); {
		case over == Unknown:
			return read(NeedNextVersion)
		case over == Yes && v.Moved == Unknown:
			return read(NeedRow)
		case over == Yes && v.Moved == No:
			return skip(timer.ReasonSuperseded)
		}
	}
	return Verdict{Action: GiveBack, Err: errors.New(e.Def.Unreadable)}
}

// successor decides about a fire of a fixed delay whose successor this process may be unable to plan:
// the chain of fires would end with it. One that is skipped as its timer is not active has none.
func successor(e *inflight.Entry, v *View) Verdict {
	if e.Def == nil || !e.Serial() ||
		v.Status.Action == Skip && v.Status.Reason != timer.ReasonFrozen {
		return Verdict{}
	}
	switch v.Follows {
	case Unknown:
		return read(NeedSuccessor)
	case No:
		return Verdict{Action: GiveBack, Err: v.FollowsErr}
	case Yes:
	}
	return Verdict{}
}

// acceptedFailed reports whether the fire is due because an accepted attempt of it has failed: it was
// not completed in time, or completed as failed.
func acceptedFailed(e *inflight.Entry) bool {
	return e.Fire.State == timer.FireAccepted || e.Fire.State == timer.FireAsyncFailed
}

// lastCallFailed reports whether such an attempt was the last one: no other one follows, however
// short the wait for it were.
func lastCallFailed(e *inflight.Entry, nowMS int64) bool {
	if !acceptedFailed(e) || e.Def == nil {
		return false
	}
	_, end := e.Def.Retry.Next(timer.FailedAttempt{
		Attempt: int(e.Fire.Attempt),
		Since:   time.Duration(nowMS-e.PlannedMS()) * time.Millisecond,
		Random:  1,
	})
	return end != timer.ReasonNone
}

// planned decides about the first attempt of a fire of the schedule: its version, and the misfire
// policy if it is late.
func planned(e *inflight.Entry, v *View) Verdict {
	if v.State.Status != timer.StatusActive && (e.Serial() || e.Fire.Version < v.State.Version) {
		// The pause is over, but the activation is not recorded yet. The activation replans edits
		// made meanwhile and starts a new serial of a fixed delay. Until then superseded fires
		// cannot be told.
		return Verdict{Action: Recheck}
	}
	switch over := superseded(e, v); {
	case over == Unknown:
		return read(NeedNextVersion)
	case over == Yes && v.Moved == Unknown:
		return read(NeedRow)
	case over == Yes && v.Moved == Yes: // edited twice meanwhile
		return Verdict{Action: Recheck}
	case over == Yes:
		return skip(timer.ReasonSuperseded)
	case v.Moved == Yes && e.Fire.RunAtMS > v.NowMS:
		return Verdict{Action: Wait}
	}
	return misfire(e, v)
}

// superseded returns whether a newer version than the fire's was in effect when the fire was due.
// Usually the newer version is the current one; otherwise the store knows when the fire's next
// version came. Each activation of a fixed delay starts a new serial and supersedes the fires of
// the old one, whatever their due time.
func superseded(e *inflight.Entry, v *View) Answer {
	if e.Serial() && e.Fire.Epoch < v.State.ActiveEpoch {
		return Yes
	}
	if e.Fire.Version >= v.State.Version {
		return No
	}
	due := max(e.Fire.DueMS, e.DueFromMS)
	if due > v.State.VersionMS || e.Fire.Version+1 == v.State.Version {
		return AnswerOf(due > v.State.VersionMS)
	}
	if v.NextVersionMS == 0 {
		return Unknown
	}
	return AnswerOf(due > v.NextVersionMS)
}

// misfire decides by the misfire policy. It does not apply to a fire whose run time was moved to a
// later one, or that waited here for a limit, a slot or earlier fires. A one-shot that waited for its
// timer to become active has its first run time again, which is before the activation.
func misfire(e *inflight.Entry, v *View) Verdict {
	m := e.Def.Misfire.For(e.Def.Schedule.Kind)
	at := e.PlannedMS()
	late := time.Duration(v.NowMS-at) * time.Millisecond
	if e.Ordered || e.WasLimited() || e.Fire.RunAtMS > at || late <= m.MisfiredAfter() {
		return Verdict{}
	}
	if m.CatchUpWindow > 0 && late > time.Duration(m.CatchUpWindow) {
		return skip(timer.ReasonMisfired)
	}
	runs, need := No, Need(0)
	switch m.Policy { // checkKnown knows them all
	case timer.MisfireSkip:
	case timer.MisfireFireAll:
		if runs, need = v.Latest, NeedLatest; runs == Yes {
			runs, need = v.InOrder, NeedOrder
		}
	case timer.MisfireFireOnce:
		runs, need = v.CatchesUp, NeedCatchUp
	}
	switch runs {
	case Unknown:
		return read(need)
	case No:
		return skip(timer.ReasonMisfired)
	case Yes:
	}
	return Verdict{}
}

// slot decides by the answer to the fire's request for a concurrency slot.
func slot(answer store.SlotVerdict) Verdict {
	switch answer {
	case store.SlotGranted:
		return Verdict{}
	case store.SlotQueued:
		return Verdict{Action: Queue}
	case store.SlotSkipped:
		return skip(timer.ReasonOverlap)
	case store.SlotQueueFull:
		return skip(timer.ReasonQueueFull)
	case store.SlotReplaced:
		return skip(timer.ReasonCancelled)
	case store.SlotNotOwned:
		return Verdict{Action: Drop}
	}
	return Verdict{Action: Recheck} // an answer of a newer release
}
