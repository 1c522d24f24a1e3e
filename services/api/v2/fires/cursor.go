package fires

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

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
	return input.EncodeCursor(
		input.FiresCursor,
		fmt.Sprintf("%d.%d.%d.%d", p.section, p.asOfMS, p.fire.DueMS, p.fire.Series),
	)
}

// finishedCursor encodes a position in a list of finished fires only. API versions before 2.6.0
// know no other form.
func (p *firesPosition) finishedCursor() string {
	return input.EncodeCursor(input.FiresCursor, p.fire.String())
}

// decodeFiresCursor decodes both forms. nowMS is the time of the first page where a cursor has
// none.
func decodeFiresCursor(id timer.ID, cursor string, nowMS int64) (firesPosition, error) {
	position, err := input.DecodeCursor(input.FiresCursor, cursor)
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
		return firesPosition{}, input.NotACursor()
	}
	for i := range ns {
		if ns[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return firesPosition{}, input.NotACursor()
		}
	}
	p := firesPosition{section: firesSection(ns[0]), asOfMS: ns[1]}
	if p.section < openSection || p.section > upcomingSection {
		return firesPosition{}, input.NotACursor()
	}
	// Fires of backfills may be due at 0. Those of the schedule, whose series is 0, are not: a timer is
	// younger.
	if ns[2] != 0 || ns[3] != 0 {
		p.fire = timer.FireID{Timer: id, DueMS: ns[2], Series: ns[3]}
	}
	return p, nil
}
