package api

import (
	"encoding/base64"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Cursors are opaque to callers: the place where a page ended, under a letter that says of which list. They name no
// server and no time, so that any replica reads them, for ever.
const (
	timersCursor    = "t"
	firesCursor     = "f"
	calendarsCursor = "c"
)

func encodeCursor(kind, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + place))
}

func decodeCursor(kind, cursor string) (place string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	place, ok := strings.CutPrefix(string(b), kind)
	if err != nil || !ok {
		return "", timer.Invalid("query.cursor", "is not a cursor of this list: pass next_cursor as it was")
	}
	return place, nil
}

func decodeTimersCursor(cursor string) (timer.ID, error) {
	if cursor == "" {
		return 0, nil
	}
	place, err := decodeCursor(timersCursor, cursor)
	if err != nil {
		return 0, err
	}
	id, err := timer.ParseID(place)
	if err != nil {
		return 0, timer.Invalid("query.cursor", "is not a cursor of this list: pass next_cursor as it was")
	}
	return id, nil
}

func decodeFiresCursor(cursor string) (timer.FireID, error) {
	if cursor == "" {
		return timer.FireID{}, nil
	}
	place, err := decodeCursor(firesCursor, cursor)
	if err != nil {
		return timer.FireID{}, err
	}
	id, err := timer.ParseFireID(place)
	if err != nil {
		return timer.FireID{}, timer.Invalid("query.cursor", "is not a cursor of this list: pass next_cursor as it was")
	}
	return id, nil
}
