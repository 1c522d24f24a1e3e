package schedule

import (
	"fmt"
	"strings"
	"time"

	robfig "github.com/robfig/cron/v3"

	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	everyName = "@every"
	minFields = 5 // minute first
	maxFields = 7 // second first, year last
)

// parsedSpec is a parsed spec: a cron or an interval.
type parsedSpec struct {
	cron  *cron
	every time.Duration // duration of an @every; otherwise 0
}

// syntaxError is where a spec is invalid, and what was expected there.
type syntaxError struct {
	at              int // byte offset into the spec
	expected, found string
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("at %d: expected %s, found %s", e.at, e.expected, e.found)
}

// parseSpec parses one spec. Its error is a *syntaxError. seed spreads H.
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
		return parsedSpec{}, s.fail(
			"a cron expression without a time zone, as that is the field time_zone",
		)
	}
	return parseFields(&s, words, seed)
}

func parseFields(s *scanner, words []word, seed timer.ID) (parsedSpec, error) {
	if len(words) < minFields {
		s.pos = len(s.text)
		return parsedSpec{}, s.fail(
			fmt.Sprintf(
				"5 fields (minute first), 6 (second first) or 7 (year last) and not %d",
				len(words),
			),
		)
	}
	if len(words) > maxFields {
		s.pos, s.end = words[maxFields].from, words[maxFields].to
		return parsedSpec{}, s.fail("the end after 7 fields")
	}
	c, spec := &cron{years: everyYear}, &robfig.SpecSchedule{Second: 1}
	kinds := cronFields[:]
	if len(words) == minFields {
		kinds = kinds[1:] // at second 0
	}
	for i, w := range words {
		s.pos, s.end = w.from, w.to
		if err := s.field(&kinds[i], c, spec, seed); err != nil {
			return parsedSpec{}, err
		}
	}
	c.fill(spec)
	return parsedSpec{cron: c}, nil
}

// descriptors parses the names of common specs, and @every.
var descriptors = robfig.NewParser(robfig.Descriptor)

func parseDescriptor(s *scanner, words []word) (parsedSpec, error) {
	first := words[0]
	name := s.text[first.from:first.to]
	if name == everyName {
		return parseEvery(s, words)
	}
	parsed, err := descriptors.Parse(name)
	spec, ok := parsed.(*robfig.SpecSchedule)
	if err != nil || !ok {
		s.pos, s.end = first.from, first.to
		return parsedSpec{}, s.fail(
			"@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or \"@every <duration>\"",
		)
	}
	if len(words) > 1 {
		s.pos, s.end = words[1].from, words[1].to
		return parsedSpec{}, s.fail("the end after " + name)
	}
	c := &cron{years: everyYear, everyHour: spec.Hour&starBit != 0}
	c.fill(spec)
	return parsedSpec{cron: c}, nil
}

// parseEvery parses the duration of an @every. It rejects fractions of a second, which robfig/cron
// would round to whole seconds.
func parseEvery(s *scanner, words []word) (parsedSpec, error) {
	const duration = "a duration such as \"90s\", \"1h30m\" or \"1d\""
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
	d, err := timer.ParseDuration(s.text[s.pos:s.end])
	if err != nil {
		return parsedSpec{}, s.fail(duration)
	}
	parsed, err := descriptors.Parse(everyName + " " + time.Duration(d).String())
	every, ok := parsed.(robfig.ConstantDelaySchedule)
	switch {
	case err != nil || !ok:
		return parsedSpec{}, s.fail(duration)
	case time.Duration(d) < time.Second:
		return parsedSpec{}, s.fail("at least 1s")
	case every.Delay != time.Duration(d):
		return parsedSpec{}, s.fail("whole seconds")
	case every.Delay > MaxDelay:
		return parsedSpec{}, s.fail("at most 10 years (3650d)")
	}
	return parsedSpec{every: every.Delay}, nil
}

var everyYear = func() (s yearSet) {
	for y := minYear; y <= maxYear; y++ {
		s.add(y)
	}
	return s
}()
