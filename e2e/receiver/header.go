package receiver

import (
	"strconv"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// parseFire parses "<timer>-<due_ms>" or "<timer>-<due_ms>-<series>" without allocating.
func parseFire(b []byte) (timer.FireID, bool) {
	var n [3]int64
	field, digits := 0, 0
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9' && digits < 18:
			n[field] = n[field]*10 + int64(c-'0') //nolint:mnd // decimal
			digits++
		case c == '-' && digits > 0 && field < len(n)-1:
			field, digits = field+1, 0
		default:
			return timer.FireID{}, false
		}
	}
	if field == 0 || digits == 0 || n[0] == 0 {
		return timer.FireID{}, false
	}
	return timer.FireID{Timer: timer.ID(n[0]), DueMS: n[1], Series: n[2]}, true
}

// parseInstant parses RFC 3339 or unix milliseconds into unix nanoseconds. It returns 0 for other
// text.
func parseInstant(s string) int64 {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.UnixNano()
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return ms * int64(time.Millisecond)
	}
	return 0
}

func parseAttempt(b []byte) int32 {
	n, err := strconv.ParseInt(string(b), 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
