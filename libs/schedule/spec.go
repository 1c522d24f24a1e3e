package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	everyName = "@every"
	minFields = 5 // minute first
	maxFields = 7 // second first, year last
)

// descriptors are the names of common specs.
var descriptors = map[string]string{
	"@yearly": "0 0 0 1 1 *", "@annually": "0 0 0 1 1 *", "@monthly": "0 0 0 1 * *", "@weekly": "0 0 0 * * 0",
	"@daily": "0 0 0 * * *", "@midnight": "0 0 0 * * *", "@hourly": "0 0 * * * *",
}

// parsedSpec is what a spec asks for: one of the two.
type parsedSpec struct {
	cron  *cron
	every time.Duration // of an @every; 0 else
}

// syntaxError says where a spec cannot be read, and what would have been right there.
type syntaxError struct {
	at              int // byte offset into the spec
	expected, found string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("at %d: expected %s, found %s", e.at, e.expected, e.found)
}

// parseSpec reads one spec. Its error is a *syntaxError. seed spreads H.
func parseSpec(text string, seed timer.ID) (parsedSpec, error) {
	s := scanner{text: text}
	words := s.words()
	if len(words) == 0 {
		return parsedSpec{}, s.fail("a cron expression such as \"*/5 * * * *\"")
	}
	first := words[0]
	switch name, _, zoned := strings.Cut(text[first.from:first.to], "="); {
	case text[first.from] == '@':
		return parseDescriptor(&s, words)
	case zoned && (name == "TZ" || name == "CRON_TZ"):
		s.pos, s.end = first.from, first.to
		return parsedSpec{}, s.fail("a cron expression without a time zone, as that is the field time_zone")
	}
	return parseFields(&s, words, seed)
}

func parseFields(s *scanner, words []word, seed timer.ID) (parsedSpec, error) {
	if len(words) < minFields {
		s.pos = len(s.text)
		return parsedSpec{}, s.fail(fmt.Sprintf("5 fields (minute first), 6 (second first) or 7 (year last) and not %d", len(words)))
	}
	if len(words) > maxFields {
		s.pos, s.end = words[maxFields].from, words[maxFields].to
		return parsedSpec{}, s.fail("the end after 7 fields")
	}
	c := &cron{second: 1, years: allYears()}
	kinds := cronFields[:len(words)]
	if len(words) == minFields {
		kinds = cronFields[1 : minFields+1]
	}
	for i, w := range words {
		s.pos, s.end = w.from, w.to
		if err := s.field(&kinds[i], c, seed); err != nil {
			return parsedSpec{}, err
		}
	}
	return parsedSpec{cron: c}, nil
}

func parseDescriptor(s *scanner, words []word) (parsedSpec, error) {
	first := words[0]
	name := s.text[first.from:first.to]
	if name == everyName {
		return parseEvery(s, words)
	}
	fields, ok := descriptors[name]
	if !ok {
		s.pos, s.end = first.from, first.to
		return parsedSpec{}, s.fail("@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or \"@every <duration>\"")
	}
	if len(words) > 1 {
		s.pos, s.end = words[1].from, words[1].to
		return parsedSpec{}, s.fail("the end after " + name)
	}
	return parseSpec(fields, 0)
}

// parseEvery reads the duration of an @every. Seconds are the finest step that a cron has.
func parseEvery(s *scanner, words []word) (parsedSpec, error) {
	const duration = "a duration such as \"90s\" or \"1h30m\""
	switch len(words) {
	case 1:
		s.pos = len(s.text)
		return parsedSpec{}, s.fail(duration)
	case 2:
	default:
		s.pos, s.end = words[2].from, words[2].to
		return parsedSpec{}, s.fail("the end after one duration")
	}
	s.pos, s.end = words[1].from, words[1].to
	d, err := time.ParseDuration(s.text[s.pos:s.end])
	switch {
	case err != nil:
		return parsedSpec{}, s.fail(duration)
	case d < time.Second:
		return parsedSpec{}, s.fail("at least 1s")
	case d%time.Second != 0:
		return parsedSpec{}, s.fail("whole seconds")
	case d > MaxDelay:
		return parsedSpec{}, s.fail("at most 10 years (87600h)")
	}
	return parsedSpec{every: d}, nil
}

func allYears() yearSet {
	var s yearSet
	for y := minYear; y <= maxYear; y++ {
		s.add(y)
	}
	return s
}
