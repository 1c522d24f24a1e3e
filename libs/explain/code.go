package explain

import (
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Code is what became of an instant, or why nothing did.
type Code string

// Delivered is the code of delivered fires. Those of failed and skipped fires are the kind and the
// reason of the outcome, such as failed_exhausted and skipped_paused.
const Delivered Code = "delivered"

// Codes of open fires.
const (
	Planned           Code = "planned"              // its run time has not come
	InProgress        Code = "in_progress"          // an executor has it, and may call it now
	Overdue           Code = "overdue"              // its run time has passed, and it is unclaimed
	WaitsForRetry     Code = "waits_for_retry"      // an attempt failed, the next one follows
	WaitsForTurn      Code = "waits_for_turn"       // another fire of the timer has not finished
	WaitsForCompleted Code = "waits_for_completion" // the receiver completes it later
	WaitsForLimits    Code = "waits_for_limits"     // a limit of the app, or the endpoint's breaker
	WaitsForActive    Code = "waits_for_activation" // the timer is not active
)

// Codes of instants without a fire, which are due or would be due.
const (
	// NotExpanded means that the instant is due and its fire does not exist yet.
	NotExpanded Code = "not_expanded"
	// MaxFires means that the timer has had all the fires that max_fires allows.
	MaxFires Code = "max_fires_reached"
	// NotActivated means that the timer was not activated yet.
	NotActivated Code = "not_activated"
	Inactive     Code = "inactive" // the timer is or was not active at the instant
	Paused       Code = "paused"   // the timer is or was paused at the instant
	Deleted      Code = "deleted"  // the timer was deleted before
	// Edited means that an earlier version has the instant, and the one in force has not.
	Edited Code = "edited"
)

// Codes of instants that are not due.
const (
	NotInSchedule Code = Code(schedule.NotInSchedule)
	BeforeStart   Code = Code(schedule.BeforeStart)
	AfterEnd      Code = Code(schedule.AfterEnd)
	ByCalendar    Code = Code(schedule.ByCalendar)
	Moved         Code = Code(schedule.MovedByCalendar)
	ByGap         Code = Code(schedule.ByGap)
	ByOverlap     Code = Code(schedule.ByOverlap)
)

// Codes of instants that cannot be explained.
const (
	// BeyondRetention means that records of the instant may have been deleted.
	BeyondRetention Code = "beyond_retention"
	// CalendarChanged means that a calendar of the schedule has changed since, and its earlier
	// content is not kept.
	CalendarChanged Code = "calendar_changed"
	// ZoneChanged means that the rules of a time zone have changed since, and those of before are
	// not kept.
	ZoneChanged Code = "zone_changed"
	// UnknownSchedule means that the definition cannot be read: a newer release has stored it, or its
	// time zone or calendar is missing.
	UnknownSchedule Code = "unknown_schedule"
	// Missing means that the instant was due and that there is neither a fire nor an outcome. This
	// is an error of Carillon.
	Missing Code = "missing"
)

// Meaning is what a code means.
type Meaning struct {
	Code Code
	Text string
}

// Meanings returns every code with its meaning, for documents.
func Meanings() []Meaning {
	out := []Meaning{{Delivered, "the target took the fire"}}
	for _, r := range failedReasons {
		text := failTexts[r]
		if r == timer.ReasonNone {
			text = "the fire failed for a reason that this release does not know"
		}
		out = append(out, Meaning{outcomeCode(timer.Failed, r), text})
	}
	for _, r := range skippedReasons {
		text := skipTexts[r]
		if r == timer.ReasonNone {
			text = "the fire was not called, for a reason that this release does not know"
		}
		out = append(out, Meaning{outcomeCode(timer.Skipped, r), text})
	}
	return append(out, []Meaning{
		{Planned, "the fire exists, and its time has not come"},
		{
			InProgress,
			"an executor has the fire, and may call it now: it is being called, is about to be, or its result is not recorded yet",
		},
		{Overdue, "the time of the fire has passed, and no executor has claimed it"},
		{WaitsForRetry, "an attempt failed, and the next one follows"},
		{WaitsForTurn, "another fire of the timer has not finished"},
		{WaitsForCompleted, "the receiver has accepted the fire and completes it later"},
		{
			WaitsForLimits,
			"a limit of the app, the breaker of the endpoint, or a lack of free workers holds the fire back",
		},
		{WaitsForActive, "the fire waits until its timer is active"},
		{NotExpanded, "the timer is due then, and its fire does not exist yet"},
		{
			MaxFires,
			"the timer has had all the fires that max_fires allows, or will have had them by then",
		},
		{NotActivated, "the timer was not active yet"},
		{Inactive, "the timer was or is not active then"},
		{Paused, "the timer was or is paused then"},
		{Deleted, "the timer was deleted before"},
		{
			Edited,
			"another version of the timer has this instant, and the one in force then has not",
		},
		{NotInSchedule, "the schedule does not have this instant"},
		{BeforeStart, "the instant is before start_at"},
		{AfterEnd, "the instant is at end_at or later"},
		{ByCalendar, "a calendar excludes the instant"},
		{Moved, "a calendar excludes the instant, and its fire is due at another one"},
		{ByGap, "the local time does not exist, because clocks were set forward"},
		{ByOverlap, "the local time occurs twice, and the fire is due in the other pass"},
		{BeyondRetention, "outcomes that old are deleted"},
		{CalendarChanged, "a calendar has changed since, and its earlier content is not kept"},
		{
			ZoneChanged,
			"the rules of a time zone have changed since, and those of before are not kept",
		},
		{UnknownSchedule, "the schedule cannot be read"},
		{
			Missing,
			"the fire was due, and there is neither a fire nor an outcome: an error of Carillon",
		},
	}...)
}

// Codes returns every code.
func Codes() []Code {
	var out []Code
	for _, m := range Meanings() {
		out = append(out, m.Code)
	}
	return out
}

// failedReasons and skippedReasons are the reasons of outcomes. A reason of a newer release gives
// the code of its kind alone.
var (
	failedReasons = []timer.Reason{
		timer.ReasonExhausted, timer.ReasonNotRetried, timer.ReasonGaveUp, timer.ReasonGone,
		timer.ReasonRejected, timer.ReasonNone,
	}
	skippedReasons = []timer.Reason{
		timer.ReasonInactive, timer.ReasonPaused, timer.ReasonFrozen, timer.ReasonDeleted,
		timer.ReasonMisfired, timer.ReasonSuperseded, timer.ReasonOverlap, timer.ReasonQueueFull,
		timer.ReasonCancelled, timer.ReasonNone,
	}
)

// outcomeCode returns the code of an outcome.
func outcomeCode(kind timer.OutcomeKind, reason timer.Reason) Code {
	known := skippedReasons
	switch kind {
	case timer.Delivered:
		return Delivered
	case timer.Failed:
		known = failedReasons
	case timer.Skipped:
	}
	for _, r := range known {
		if r == reason && r != timer.ReasonNone {
			return Code(string(kind) + "_" + string(reason))
		}
	}
	return Code(kind)
}
