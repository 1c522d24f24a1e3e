package explain

import (
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
	timer.ReasonMisfired:   "it was too late, and the misfire policy skips such fires",
	timer.ReasonSuperseded: "a newer version of the timer does not have this instant",
	timer.ReasonOverlap:    "another fire of the timer had not finished",
	timer.ReasonQueueFull:  "as many fires as allowed were waiting for the ones before them",
	timer.ReasonCancelled:  "a later fire replaced it, or its backfill was cancelled",
}

// failTexts says why fires failed.
var failTexts = map[timer.Reason]string{
	timer.ReasonExhausted:  "its last attempt failed",
	timer.ReasonNotRetried: "the timer does not retry this answer",
	timer.ReasonGaveUp:     "the next attempt would have been later than give_up_after allows",
	timer.ReasonGone:       "the receiver answered that it is gone, and the timer was paused",
	timer.ReasonRejected:   "its target can never be called as it is defined",
}

// statusGone is the answer of a receiver that is gone.
const statusGone = 410

// finishedText says what became of a fire. last is its last attempt, nil if that is not known.
func finishedText(o *timer.Outcome, last *timer.Attempt) string {
	at := instant(o.FinishedMS)
	switch o.Kind {
	case timer.Delivered:
		return fmt.Sprintf("Delivered at %s, %d ms late, with %s.", at, o.LatenessMS,
			count(int64(o.Attempts), "attempt"))
	case timer.Failed:
		return failedText(o)
	case timer.Skipped:
		return skippedText(o, last)
	}
	return fmt.Sprintf("Finished at %s as %q.", at, o.Kind)
}

func failedText(o *timer.Outcome) string {
	text := fmt.Sprintf("Failed at %s after %s", instant(o.FinishedMS),
		count(int64(o.Attempts), "attempt"))
	why, known := failTexts[o.Reason]
	answer := ""
	switch {
	case o.StatusCode != 0:
		answer = fmt.Sprintf("%s, status %d", o.Failure, o.StatusCode)
	case o.Failure != timer.FailureNone:
		answer = string(o.Failure)
	}
	if o.Reason == timer.ReasonGone && o.StatusCode != statusGone {
		why = "one of its targets answered that it is gone, and the timer was paused"
		if answer != "" {
			return text + ": " + why + "; the call of another one failed (" + answer + ")."
		}
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
