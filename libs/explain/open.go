package explain

import (
	"context"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Sessions is the part of the store that knows which sessions have ended.
type Sessions interface {
	SessionsByID(ctx context.Context, ids []timer.ID) ([]store.Session, error)
}

// Owners are the sessions that own open fires. The value is true if the session is alive.
type Owners map[timer.ID]bool

// ReadOwners reads which of the sessions that own the fires are alive. It makes no call per fire,
// and none if no fire is owned.
func ReadOwners(ctx context.Context, s Sessions, fires []timer.Fire) (Owners, error) {
	var ids []timer.ID
	for i := range fires {
		if fires[i].Owner != 0 {
			ids = append(ids, fires[i].Owner)
		}
	}
	slices.Sort(ids)
	alive := Owners{}
	for part := range slices.Chunk(slices.Compact(ids), store.MaxBatch) {
		found, err := s.SessionsByID(ctx, part)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range found {
			alive[found[i].ID] = !found[i].Ended
		}
	}
	return alive, nil
}

// OpenCode returns the code of an open fire by its row. InProgress is what the row tells: a live
// executor has the fire, and its run time has come, or only waits until its app may make another call.
// Whether the call has begun, only that executor knows. s is the state of its timer, nil: not known.
func OpenCode(o *timer.Fire, alive Owners, s *timer.State, nowMS int64) Code {
	due := o.RunAtMS <= nowMS
	switch {
	case o.RunAtMS == timer.DeferredMS:
		return WaitsForActive
	case mayBeCalled(o, nowMS) && alive[o.Owner] && o.State != timer.FireAccepted:
		return InProgress
	case s != nil && heldByPause(o, s, nowMS):
		return WaitsForActive
	}
	switch o.State {
	case timer.FireRetrying, timer.FireAsyncFailed:
		return WaitsForRetry
	case timer.FireWaiting:
		return WaitsForTurn
	case timer.FireAccepted:
		return WaitsForCompleted
	case timer.FireDeferred:
		return WaitsForLimits
	case timer.FireReady:
	}
	if due {
		return Overdue
	}
	return Planned
}

// mayBeCalled reports whether an executor that has a fire may call it now. It may call one whose app
// may make calls again sooner than its row says, until the earlier run time is written to the row.
func mayBeCalled(o *timer.Fire, nowMS int64) bool {
	return o.RunAtMS <= nowMS || o.State == timer.FireDeferred && o.WaitsForCall()
}

// heldByPause reports whether a fire that was due while its timer was active waits for its next
// activation. Executors decide so at its run time only, so its row may still have another wait.
func heldByPause(o *timer.Fire, s *timer.State, nowMS int64) bool {
	switch {
	case !s.Exists(), s.Status == timer.StatusDeleted, o.Series != 0, o.DueMS > nowMS,
		o.State == timer.FireAccepted, o.State == timer.FireReady && o.RunAtMS <= nowMS,
		s.ActiveAt(max(nowMS, o.RunAtMS)):
		return false
	}
	reason, _ := s.SkipReasonAt(o.DueMS)
	// An earlier period may skip a fire that nobody has decided about.
	due := o.Attempt > 0 || o.State != timer.FireReady ||
		s.ActiveSinceMS != 0 && o.DueMS >= s.ActiveSinceMS
	return reason == timer.ReasonNone && due
}

// openText says what an open fire with a code waits for.
func openText(o *timer.Fire, code Code, nowMS int64) string {
	run := instant(o.RunAtMS)
	unclaimed := ", and no executor has claimed it yet."
	if o.Owner != 0 { // a dead owner, of a fire that is overdue
		unclaimed = ". The executor that had claimed it has ended, and whether that called it is not " +
			"known; no other one has claimed it yet."
	}
	switch code { //nolint:exhaustive // the others are not of open fires
	case WaitsForActive:
		switch {
		case o.State == timer.FireAccepted, o.State == timer.FireAsyncFailed:
			return "The receiver has accepted the fire and not completed it as delivered: what follows is " +
				"decided once the timer is active again."
		case o.Attempt > 0:
			return failedAttempts(o) + "; the next one waits until the timer is active again."
		}
		return "The fire waits until its timer is active again."
	case InProgress:
		return "An executor has the fire, and may call it now: it is being called, is about to " +
			"be, or its result is not recorded yet. Only that executor knows."
	case WaitsForRetry:
		failed := failedAttempts(o)
		if o.RunAtMS <= nowMS {
			return failed + "; the next one should have been at " + run + unclaimed
		}
		return failed + "; the next one is at " + run + "."
	case WaitsForTurn:
		return "An earlier fire of the timer has not finished" + since(o) +
			"; it is called after that one, or asked again at " + run + "."
	case WaitsForCompleted:
		return "The receiver has accepted the fire and has until " + run + " to complete it."
	case WaitsForLimits:
		return deferredText(o) + since(o) + "; it is asked again at " + run + "."
	case Planned:
		return "The fire is to be called at " + run + "."
	}
	return "The fire should have been called at " + run + unclaimed
}

func failedAttempts(o *timer.Fire) string {
	verb := " have failed"
	if o.Attempt == 1 {
		verb = " has failed"
	}
	return count(int64(o.Attempt), "attempt") + verb
}

// since says since when a fire waits, if its row has that.
func since(o *timer.Fire) string {
	if o.WaitingSinceMS == 0 {
		return ""
	}
	return ", and the fire waits since " + instant(o.WaitingSinceMS)
}

// deferredText says what a deferred fire waits for.
func deferredText(o *timer.Fire) string {
	switch {
	case o.WaitingSinceMS == 0:
	case o.WaitedFor == timer.WaitLimits:
		return "The limits of the app held the fire back"
	case o.WaitedFor == timer.WaitBreaker:
		return "The breaker of the endpoint was open"
	case o.WaitedFor == timer.WaitStore:
		return "The settings of the app could not be read"
	case o.WaitedFor == timer.WaitWorker:
		return "All workers that its executor has for one app were busy"
	}
	return "A limit of the app or the breaker of the endpoint held the fire back"
}

// open explains a fire without an outcome. base is the answer of the schedule for its instant.
func (f *Facts) open(base Answer, o *timer.Fire) Answer {
	a := f.present(base, o)
	a.Text = requestedText(o) + a.Text
	return a
}

// present tells what an open fire waits for.
func (f *Facts) present(base Answer, o *timer.Fire) Answer {
	a := base
	a.Open, a.Version, a.Due = o, o.Version, base.Due || o.Series == 0
	a.Code = OpenCode(o, f.Owners, &f.State, f.NowMS)
	a.Text, a.Frozen = openText(o, a.Code, f.NowMS), false
	if a.Code == Planned && o.Series == 0 && f.afterDeletion(&a, nil) {
		return a
	}
	if f.State.Status == timer.StatusDeleted && a.Code != InProgress &&
		a.Code != WaitsForCompleted {
		a.Text += " The timer was deleted: the fire will be skipped."
		return a
	}
	frozen := ""
	if a.Frozen = f.skippedByFreeze(o, a.Code); a.Frozen {
		again := ""
		if o.Attempt > 0 || o.Owner != 0 && a.Code == Overdue {
			again = " again"
		}
		frozen = frozenText(again)
	}
	v, _ := f.version(a.AtMS)
	if v == nil {
		a.Text += frozen
		return a
	}
	if a.Code == WaitsForActive {
		if i, ok := f.inactivity(f.NowMS); ok {
			a.Text += " " + f.inactivityText(i)
		}
		return a
	}
	// If the timer stays as it is, a planned fire is skipped.
	if a.Code == Planned && o.Series == 0 && f.whileInactive(&a, v) {
		a.Text += frozen
		return a
	}
	a.Text += frozen
	if f.removed(&base, o, v) {
		return removedAnswer(base, o, v)
	}
	return a
}

// skippedByFreeze reports whether the fire is skipped if the app stays frozen until its run time, as
// executors decide it. A call under way and a completion go on, and what is skipped or held for its
// timer is not skipped for the app.
func (f *Facts) skippedByFreeze(o *timer.Fire, code Code) bool {
	switch {
	case !f.State.Frozen, code == InProgress, code == WaitsForCompleted, code == WaitsForActive:
		return false
	case o.Series != 0:
		return o.Cause != timer.CauseRunNow || o.Attempt > 0
	case !f.State.ActiveAt(max(f.NowMS, o.RunAtMS)):
		return false
	}
	_, idle := f.inactivity(o.DueMS)
	v, _ := f.version(o.DueMS)
	return !idle || v != nil && v.Definition.Schedule.Kind.OneShot()
}

// removed reports whether an edit, or a change of a calendar, has removed the instant of an open
// fire. Migrators decide about such a fire, so for a while its row is that of the older version. A
// fire that had an attempt, or that waits, was decided about before.
func (f *Facts) removed(base *Answer, o *timer.Fire, v *Version) bool {
	if o.Series != 0 || o.State != timer.FireReady || o.Attempt > 0 || o.Version >= v.N ||
		base.Due || base.Code == UnknownSchedule || f.calendarsChanged(base) {
		return false
	}
	// The schedule of a fixed delay alone has no instants: each edit decides about its only fire.
	return v.Definition.Schedule.Kind != timer.KindFixedDelay
}

// removedAnswer explains an open fire whose instant the version in force has not.
func removedAnswer(a Answer, o *timer.Fire, v *Version) Answer {
	a.Open = o
	switch a.Code { //nolint:exhaustive // the others tell more than that it was edited
	case NotInSchedule, BeforeStart, AfterEnd:
		a.Code, a.Text = Edited, editedText(o.Version, v)
	}
	a.Text += " Its fire is still open, and will be skipped (superseded)."
	return a
}

// editedText says that an earlier version has an instant, and the one in force has not.
func editedText(earlier int32, v *Version) string {
	return fmt.Sprintf("Version %d has this instant; version %d, in force since %s, has not.",
		earlier, v.N, instant(v.SinceMS))
}
