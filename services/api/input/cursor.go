package input

import (
	"encoding/base64"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Cursors are opaque to callers. A cursor is the position at which a page ended, prefixed with the
// kind of its list. It names no server and no time, so every replica can decode it at any later
// time.
const (
	TimersCursor         = "t"
	FiresCursor          = "f"
	CalendarsCursor      = "c"
	CalendarTimersCursor = "k"
	DeadLettersCursor    = "d"
	ExplainCursor        = "x"
	AppsCursor           = "a"
	JobsCursor           = "j"
	AppFiresCursor       = "h"
	AuditCursor          = "u"
	RedriveCursor        = "r"
)

// EncodeCursor returns the cursor of a position.
func EncodeCursor(kind, position string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + position))
}

// DecodeCursor returns the position of a cursor.
func DecodeCursor(kind, cursor string) (position string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	position, ok := strings.CutPrefix(string(b), kind)
	if err != nil || !ok {
		return "", NotACursor()
	}
	return position, nil
}

// NotACursor returns the error about a text that is no cursor of this list.
func NotACursor() error {
	return timer.Invalid(
		"query.cursor",
		"expected the next_cursor of a page of this list, found another text: pass it as it was",
	)
}
