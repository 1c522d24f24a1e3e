package payload

import (
	"math"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// maxZoneLen is the assumed maximum length of a zone's name in Longest. The longest actual name has
// 32 bytes.
const maxZoneLen = 64

// Longest returns the maximum length in bytes of a checked text after expansion, for any fire of
// the timer.
func Longest(src string, p Place, labels map[string]string) int {
	if !strings.Contains(src, opening) {
		return len(src)
	}
	sizes := make(map[string]int)
	sum := 0
	for rest := src; ; {
		before, name, after, found, err := next(rest)
		sum += len(before)
		if err != nil || !found {
			return sum
		}
		size, known := sizes[name]
		if !known {
			size = longestOf(name, p, labels)
			sizes[name] = size
		}
		sum += size
		rest = after
	}
}

// longestOf returns the maximum length of a variable's value in its place.
func longestOf(name string, p Place, labels map[string]string) int {
	switch name {
	case "timer.name":
		return timer.MaxNameLen * maxEscaped(p)
	case "app":
		return timer.MaxAppLen * maxEscaped(p)
	case "zone":
		return maxZoneLen * maxEscaped(p)
	}
	v := Values{
		//nolint:mnd // four digits
		Fire: timer.FireID{
			Timer:  timer.MaxID,
			DueMS:  time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMilli(),
			Series: math.MaxInt64,
		},
		Attempt: math.MaxInt32,
		Cause:   timer.CauseSchedule.String(),
		Labels:  labels,
		Zone:    time.FixedZone("", int(time.Hour.Seconds())),
	}
	value, _ := v.value(nil, name)
	if kindOf(name) == literal && p != URL && p != Form {
		return len(value)
	}
	b, _ := escape(nil, value, p) // a value that cannot be escaped is never sent
	return len(b)
}

// maxEscaped returns the maximum number of bytes that one byte of printable text becomes. For an
// unknown place that is the maximum of all places.
func maxEscaped(p Place) int {
	switch p {
	case URL, Form:
		return len("%25")
	case JSON:
		return len(`\"`)
	case Header, Text:
		return 1
	case XML:
	}
	return len("&#34;")
}
