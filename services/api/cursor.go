package api

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Cursors are opaque to callers. A cursor is the position at which a page ended, prefixed with the
// kind of its list. It names no server and no time, so every replica can decode it at any later
// time.
const (
	timersCursor    = "t"
	firesCursor     = "f"
	calendarsCursor = "c"
)

func encodeCursor(kind, position string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + position))
}

func decodeCursor(kind, cursor string) (position string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	position, ok := strings.CutPrefix(string(b), kind)
	if err != nil || !ok {
		return "", notACursor()
	}
	return position, nil
}

func notACursor() error {
	return timer.Invalid(
		"query.cursor",
		"expected the next_cursor of a page of this list, found another text: pass it as it was",
	)
}

func decodeTimersCursor(cursor string) (timer.ID, error) {
	if cursor == "" {
		return 0, nil
	}
	position, err := decodeCursor(timersCursor, cursor)
	if err != nil {
		return 0, err
	}
	id, err := timer.ParseID(position)
	if err != nil {
		return 0, notACursor()
	}
	return id, nil
}

// firesSection is a section of a list of fires. The constants are in the order of the list.
type firesSection int

const (
	openSection firesSection = iota
	finishedSection
	upcomingSection
)

// firesPosition is where a page of fires begins: after a fire in one section of the list.
type firesPosition struct {
	section firesSection
	fire    timer.FireID // zero: at the first
	asOfMS  int64        // time of the first page; fires due later are upcoming
}

// cursor encodes the position. The timer is not part of it, because the request names it.
func (p *firesPosition) cursor() string {
	return encodeCursor(
		firesCursor,
		fmt.Sprintf("%d.%d.%d.%d", p.section, p.asOfMS, p.fire.DueMS, p.fire.Series),
	)
}

// finishedCursor encodes a position in a list of finished fires only. API versions before 2.6.0
// know no other form.
func (p *firesPosition) finishedCursor() string { return encodeCursor(firesCursor, p.fire.String()) }

// decodeFiresCursor decodes both forms. nowMS is the time of the first page where a cursor has
// none.
func decodeFiresCursor(id timer.ID, cursor string, nowMS int64) (firesPosition, error) {
	position, err := decodeCursor(firesCursor, cursor)
	if err != nil {
		return firesPosition{}, err
	}
	if fire, err := timer.ParseFireID(position); err == nil {
		return firesPosition{section: finishedSection, fire: fire, asOfMS: nowMS}, nil
	}
	const fields = 4
	var ns [fields]int64
	parts := strings.Split(position, ".")
	if len(parts) != fields {
		return firesPosition{}, notACursor()
	}
	for i := range ns {
		if ns[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return firesPosition{}, notACursor()
		}
	}
	p := firesPosition{section: firesSection(ns[0]), asOfMS: ns[1]}
	if p.section < openSection || p.section > upcomingSection {
		return firesPosition{}, notACursor()
	}
	if ns[2] != 0 {
		p.fire = timer.FireID{Timer: id, DueMS: ns[2], Series: ns[3]}
	}
	return p, nil
}
