package input

import (
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// LastYear is the last year that schedules support.
const LastYear = 2199

// CeilMS rounds up to milliseconds, so that nothing runs early.
func CeilMS(at time.Time) int64 {
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// EndMS is CeilMS for the excluded end of a range, where 0 would stand for no end. Nothing happens
// before 1970, so the instant before 0 ends the same range.
func EndMS(at time.Time) int64 {
	if ms := CeilMS(at); ms != 0 {
		return ms
	}
	return -1
}

const instantFormat = "2006-01-02T15:04:05.000Z"

// Instant formats unix milliseconds; 0 and NeverMS, which stand for none, are empty.
func Instant(ms int64) string {
	if ms == 0 {
		return ""
	}
	return Due(ms)
}

// Due formats the unix milliseconds of an instant that there is, such as the end of a range or the
// due instant of a fire: 0 is the first one that schedules support. NeverMS is empty.
func Due(ms int64) string {
	if ms == timer.NeverMS {
		return ""
	}
	return AnyInstant(ms)
}

// AnyInstant formats unix milliseconds that are known: 0 is the first instant of 1970.
func AnyInstant(ms int64) string { return time.UnixMilli(ms).UTC().Format(instantFormat) }

// EditTries limits how often an edit starts again because another edit came between its read and
// its write.
const EditTries = 20
