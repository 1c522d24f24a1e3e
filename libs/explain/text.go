package explain

import (
	"cmp"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// skipTexts says why fires were skipped.
var skipTexts = map[timer.Reason]string{
	timer.ReasonInactive:   "the timer was not active when it was due",
	timer.ReasonPaused:     "the timer was paused when it was due",
	timer.ReasonFrozen:     "the app was frozen",
	timer.ReasonDeleted:    "the timer was deleted",
	timer.ReasonMisfired:   "it was late, and the timer's misfire policy does not call it",
	timer.ReasonSuperseded: "a newer version of the timer or of its calendar does not have this instant",
	timer.ReasonOverlap:    "another fire of the timer had not finished",
	timer.ReasonQueueFull:  "as many fires as allowed were waiting for the ones before them",
	timer.ReasonCancelled:  "a later fire replaced it, or its backfill was cancelled",
}

// failTexts says why fires failed.
var failTexts = map[timer.Reason]string{
	timer.ReasonExhausted:  "its last attempt failed",
	timer.ReasonNotRetried: "the timer does not retry this answer",
	timer.ReasonGaveUp:     "the next attempt would have been later than give_up_after allows",
	timer.ReasonGone:       "the receiver answered that it is gone, which pauses the timer if it is active and was not edited since",
	timer.ReasonRejected:   "its target cannot be called, by its definition or for lack of rights",
}

// statusGone is the answer of a receiver that is gone.
const statusGone = 410

// finishedText says what became of a fire. last is its last attempt, nil if that is not known.
func finishedText(o *timer.Outcome, last *timer.Attempt) string {
	at := instant(o.FinishedMS)
	switch o.Kind {
	case timer.Delivered:
		return fmt.Sprintf("Delivered at %s, %d ms late, with %s.", at, o.LatenessMS,
			count(int64(o.Attempts), "attempt")) + lateText(o, last) + earlierText(o)
	case timer.Failed:
		return failedText(o) + earlierText(o)
	case timer.Skipped:
		return skippedText(o, last) + earlierText(o)
	}
	return fmt.Sprintf("Finished at %s as %q.", at, o.Kind)
}

// requestedText says by what a fire was requested that is not of the schedule, as a sentence with a
// space behind it.
func requestedText(f *timer.Fire) string {
	if f.Series == 0 {
		return ""
	}
	return fmt.Sprintf("Requested by a %s at %s. ", f.Cause, instant(requestedMS(f)))
}

// requestedMS returns when a fire was requested that is not of the schedule. A run-now is due then;
// its series may be one of an idempotency key. Other series are the ids of their requests.
func requestedMS(f *timer.Fire) int64 {
	if f.Cause == timer.CauseRunNow {
		return f.DueMS
	}
	return timer.ID(f.Series).TimeMS()
}

// lateClaimMS is how long after its run time a fire is claimed for that to be said.
const lateClaimMS = 100

// lateText says that a fire was claimed late, if that is most of its lateness.
func lateText(o *timer.Outcome, last *timer.Attempt) string {
	start := o.FinishedMS - o.DurationMS
	if last != nil {
		start = last.StartMS
	}
	late := o.Hops.ClaimedMS - (start - o.LatenessMS)
	switch {
	case o.Attempts != 1, late < lateClaimMS, late < o.LatenessMS/2:
		return ""
	case firstClaim(&o.Hops, start):
		return fmt.Sprintf(
			" No executor had claimed it until %s after its run time.",
			duration(late),
		)
	case laterClaim(&o.Hops, start) && o.Hops.WaitedMS < late/2:
		return fmt.Sprintf(
			" Its executor claimed it %s after its run time; whether another one had "+
				"claimed it before is not known.",
			duration(late),
		)
	}
	return ""
}

// laterClaim reports whether the fire may have been claimed before the claim of the hops, and its
// path does not tell. Its wait began before that claim, under an earlier one or while the executor
// waited for this one.
func laterClaim(h *timer.Hops, startMS int64) bool {
	return h.ClaimedMS != 0 && h.ClaimedMS <= startMS && h.WaitedMS > 0 &&
		h.Path != timer.PathOrphaned && h.Path != timer.PathOwnClaim
}

// firstClaim reports whether the claim of the hops is the first one, as far as they tell. They have
// the latest one. A claim before it is known by the path, or by an attempt or a wait that began
// before this one. startMS is when the first attempt began.
func firstClaim(h *timer.Hops, startMS int64) bool {
	return h.ClaimedMS != 0 && h.Path != timer.PathOrphaned && h.Path != timer.PathOwnClaim &&
		startMS-h.WaitedMS >= h.ClaimedMS
}

// earlierText says that an executor that ended may have called the fire, which it took with it. The
// attempts and the lateness are those of the next one.
func earlierText(o *timer.Outcome) string {
	if !mayHaveBeenCalled(o) {
		return ""
	}
	return " An executor that claimed it before has ended; whether that called it is not known."
}

// mayHaveBeenCalled reports whether an executor that ended may have called the fire.
func mayHaveBeenCalled(o *timer.Outcome) bool { return o.Hops.Path == timer.PathOrphaned }

// failureTexts are failures in words, where a sentence about the fire names one.
var failureTexts = map[timer.Failure]string{
	timer.FailureAsync:   "accepted, and then completed as failed, or not in time",
	timer.FailureCircuit: "not sent: the breaker of the endpoint was open",
	timer.FailureRule:    "the success rule does not match the answer",
	timer.FailureRefused: "the rules about addresses do not allow it",
}

// failureText says what the last attempt came to, empty if that is not known.
func failureText(o *timer.Outcome) string {
	switch text, ok := failureTexts[o.Failure]; {
	case o.Failure == timer.FailureStatus && o.StatusCode == 0:
		return "" // of one of several targets
	case o.Failure == timer.FailureStatus:
		return fmt.Sprintf("status %d", o.StatusCode)
	case o.StatusCode != 0:
		return fmt.Sprintf("%s, status %d", cmp.Or(text, string(o.Failure)), o.StatusCode)
	case ok:
		return text
	}
	return string(o.Failure)
}

func failedText(o *timer.Outcome) string {
	text := fmt.Sprintf("Failed at %s after %s", instant(o.FinishedMS),
		count(int64(o.Attempts), "attempt"))
	why, known := failTexts[o.Reason]
	answer := failureText(o)
	if o.Reason == timer.ReasonRejected && o.Failure == timer.FailureRefused {
		why, answer = "the rules about addresses do not allow its target", ""
	}
	if o.Reason == timer.ReasonGone && o.StatusCode != statusGone {
		why = "one of its targets answered that it is gone, which pauses the timer if it is active and was not edited since"
		if answer != "" {
			return text + ": " + why + "; the call of another one failed (" + answer + ")."
		}
	}
	if o.Reason == timer.ReasonNotRetried && answer == "" {
		why = "the timer does not retry the answer of one of its targets"
	}
	if known {
		text += ": " + why
	}
	if answer != "" {
		text += " (" + answer + ")"
	}
	return text + "."
}

func skippedText(o *timer.Outcome, last *timer.Attempt) string {
	why, ok := skipTexts[o.Reason]
	if !ok {
		why = fmt.Sprintf("the reason is %q", o.Reason)
	}
	if o.Reason == timer.ReasonCancelled {
		why = cancelledText(o, last)
	}
	switch {
	case o.Count > 1:
		return fmt.Sprintf("Skipped with %d others from %s to %s: %s.", o.Count-1,
			instant(o.DueMS), instant(o.UntilMS), why)
	case o.Attempts == 0 && mayHaveBeenCalled(o):
		return "Skipped at " + instant(o.FinishedMS) + ": " + why + "."
	case o.Attempts == 0:
		return "Not called: " + why + "."
	case abandoned(last):
		return fmt.Sprintf("Called: attempt %d began at %s and was given up at %s, because %s.",
			last.N, instant(last.StartMS), instant(o.FinishedMS), why)
	}
	return fmt.Sprintf("Called with %s, and given up at %s, because %s.",
		count(int64(o.Attempts), "attempt"), instant(o.FinishedMS), why)
}

// cancelledText says which of its two causes a cancellation has, if the records tell.
func cancelledText(o *timer.Outcome, last *timer.Attempt) string {
	const replaced = "a later fire of the timer replaced it"
	switch {
	case o.Cause != timer.CauseBackfill, abandoned(last): // no other cause interrupts a call
		return replaced
	case o.Owner == store.SystemSession:
		return "its backfill was cancelled"
	}
	return skipTexts[timer.ReasonCancelled]
}

// abandoned reports whether an attempt was interrupted.
func abandoned(a *timer.Attempt) bool { return a != nil && a.Failure == timer.FailureCanceled }

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
