package api

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Cursors are opaque to callers: the place where a page ended, under a letter that says of which
// list. They name no server and no time, so that any replica reads them, for ever.
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

// firesSection is a part of a list of fires, in their order.
type firesSection int

const (
	openSection firesSection = iota
	finishedSection
	upcomingSection
)

// firesPosition is where a page of fires begins: behind a fire of one part of the list.
type firesPosition struct {
	section firesSection
	fire    timer.FireID // zero: at the first
	asOfMS  int64        // when the first page was asked for: what is due later is upcoming
}

// cursor writes the place. The timer is known to whoever reads it.
func (p *firesPosition) cursor() string {
	return encodeCursor(
		firesCursor,
		fmt.Sprintf("%d.%d.%d.%d", p.section, p.asOfMS, p.fire.DueMS, p.fire.Series),
	)
}

// finishedCursor is the cursor of a list that has finished fires only. Releases before 2.6.0 of the
// description knew no others.
func (p *firesPosition) finishedCursor() string { return encodeCursor(firesCursor, p.fire.String()) }

// decodeFiresCursor reads both forms. nowMS stands for when the first page was asked for where a
// cursor does not say it.
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
