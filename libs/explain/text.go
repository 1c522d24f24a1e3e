package explain

import (
	"fmt"

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
	timer.ReasonOverlap:    "the fire before it had not finished",
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

// finishedText says what became of a fire.
func finishedText(o *timer.Outcome) string {
	at := instant(o.FinishedMS)
	switch o.Kind {
	case timer.Delivered:
		return fmt.Sprintf("Delivered at %s, %d ms late, with %s.", at, o.LatenessMS,
			count(int64(o.Attempts), "attempt"))
	case timer.Failed:
		text := fmt.Sprintf("Failed at %s after %s", at, count(int64(o.Attempts), "attempt"))
		if why, ok := failTexts[o.Reason]; ok {
			text += ": " + why
		}
		switch {
		case o.StatusCode != 0:
			text += fmt.Sprintf(" (%s, status %d)", o.Failure, o.StatusCode)
		case o.Failure != timer.FailureNone:
			text += fmt.Sprintf(" (%s)", o.Failure)
		}
		return text + "."
	case timer.Skipped:
		why, ok := skipTexts[o.Reason]
		if !ok {
			why = fmt.Sprintf("the reason is %q", o.Reason)
		}
		if o.Count > 1 {
			return fmt.Sprintf("Skipped with %d others from %s to %s: %s.", o.Count-1,
				instant(o.DueMS), instant(o.UntilMS), why)
		}
		return "Not called: " + why + "."
	}
	return fmt.Sprintf("Finished at %s as %q.", at, o.Kind)
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
