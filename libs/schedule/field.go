package schedule

import (
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"

	"github.com/carillon-timer/carillon/libs/timer"
)

// fieldKind describes one field of a spec.
type fieldKind struct {
	place    uint64 // distinguishes the fields in the hash of H
	want     string // description of its values
	min, max int
	starMax  int // largest value of * and open steps: 6 if 7 is an alias of 0
	hashMax  int // largest value of H: 28 for days of month; 0 means no H
	parser   robfig.Parser
	bits     func(s *robfig.SpecSchedule) *uint64
}

// cronFields are the fields of a spec with seven fields. robfig/cron has all of them but the year.
var cronFields = [maxFields]fieldKind{
	{
		place: 1, want: "a second from 0 to 59", max: 59, starMax: 59, hashMax: 59,
		parser: robfig.NewParser(robfig.Second),
		bits:   func(s *robfig.SpecSchedule) *uint64 { return &s.Second },
	},
	{
		place: 2, want: "a minute from 0 to 59", max: 59, starMax: 59, hashMax: 59,
		parser: robfig.NewParser(robfig.Minute),
		bits:   func(s *robfig.SpecSchedule) *uint64 { return &s.Minute },
	},
	{
		place: 3, want: "an hour from 0 to 23", max: 23, starMax: 23, hashMax: 23,
		parser: robfig.NewParser(robfig.Hour),
		bits:   func(s *robfig.SpecSchedule) *uint64 { return &s.Hour },
	},
	{
		place: 4, want: "a day of the month from 1 to 31",
		min: 1, max: 31, starMax: 31, hashMax: 28,
		parser: robfig.NewParser(robfig.Dom),
		bits:   func(s *robfig.SpecSchedule) *uint64 { return &s.Dom },
	},
	{
		place: 5, want: "a month from 1 to 12 or jan to dec",
		min: 1, max: 12, starMax: 12, hashMax: 12,
		parser: robfig.NewParser(robfig.Month),
		bits:   func(s *robfig.SpecSchedule) *uint64 { return &s.Month },
	},
	{
		place: 6, want: "a weekday from 0 to 7 or sun to sat", max: 7, starMax: 6, hashMax: 6,
		parser: robfig.NewParser(robfig.Dow),
		bits:   func(s *robfig.SpecSchedule) *uint64 { return &s.Dow },
	},
	{
		place: 7, want: "a year from 1970 to 2199", min: minYear, max: maxYear, starMax: maxYear,
	},
}

// isHour, isDate, isWeekday and isYear identify the fields with rules of their own.
func (k *fieldKind) isHour() bool    { return k.place == 3 }
func (k *fieldKind) isDate() bool    { return k.place == 4 }
func (k *fieldKind) isWeekday() bool { return k.place == 6 }
func (k *fieldKind) isYear() bool    { return k.place == 7 }

// size returns the number of values of the field.
func (k *fieldKind) size() int { return k.starMax - k.min + 1 }

// maxStep returns the largest step that reaches a second value of the field.
func (k *fieldKind) maxStep() int { return k.starMax - k.min }

// starBit is set by robfig/cron for * or ? without a step or with the step 1.
const starBit = 1 << 63

// standard parses an item with robfig/cron and returns its bits. It returns false for invalid items
// and for the extensions of this package.
//
// robfig/cron also accepts signs before numbers, anything after a star, and steps of any size.
func (k *fieldKind) standard(item string) (bits uint64, ok bool) {
	values, step, stepped := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || !isWord(step) || n > k.maxStep()) {
		return 0, false
	}
	low, high, ranged := strings.Cut(values, "-")
	if k.isYear() || values != "*" && values != "?" && (!isWord(low) || ranged && !isWord(high)) {
		return 0, false
	}
	parsed, err := k.parser.Parse(item)
	spec, ok := parsed.(*robfig.SpecSchedule)
	if err != nil || !ok {
		return 0, false
	}
	return *k.bits(spec), true
}

// isWord reports whether a text is a number or a name.
func isWord(text string) bool {
	for i := range len(text) {
		if c := text[i] | 0x20; (c < 'a' || c > 'z') && (text[i] < '0' || text[i] > '9') {
			return false
		}
	}
	return text != ""
}

// fieldValue is the parsed value of a field.
type fieldValue struct {
	bits  uint64 // all fields but the year, as robfig/cron has them
	years yearSet
	days  *dayRules // day fields: everything but plain values
}

// add adds every step-th value of a range. Values beyond the end of the field wrap to its start.
func (f *fieldValue) add(k *fieldKind, low, high, step int) {
	for v := low; v <= high; v += step {
		if k.isYear() {
			f.years.add(v)
		} else {
			f.bits |= 1 << (k.min + (v-k.min)%k.size())
		}
	}
}

// field parses a field item by item: with robfig/cron, or as an extension of this package, which
// also locates errors. The plain values go into spec, everything else into c.
func (s *scanner) field(k *fieldKind, c *cron, spec *robfig.SpecSchedule, seed timer.ID) error {
	f := fieldValue{days: &c.days}
	text := s.text[s.pos:s.end]
	for {
		item, _, _ := strings.Cut(s.text[s.pos:s.end], ",")
		follow := ""
		if bits, ok := k.standard(item); ok {
			f.bits |= bits
			s.pos += len(item)
		} else {
			var err error
			if follow, err = s.item(k, &f, seed); err != nil {
				return err
			}
		}
		if s.done() {
			break
		}
		if !s.accept(',') {
			return s.fail(follow + `"," or the end of the field`)
		}
	}
	switch {
	case k.isYear():
		c.years = f.years
		return nil
	case k.isHour(): // * or */n is a rhythm instead of times of day
		c.everyHour = (text[0] == '*' || text[0] == '?') && !strings.Contains(text, ",")
	}
	*k.bits(spec) = f.bits
	return nil
}

// fill takes the plain values of the fields from the result of robfig/cron.
func (c *cron) fill(s *robfig.SpecSchedule) {
	c.second, c.minute, c.hour = s.Second&^starBit, s.Minute&^starBit, s.Hour&^starBit
	c.days.dates, c.month, c.days.weekdays = s.Dom&^starBit, s.Month&^starBit, s.Dow&^starBit
	c.days.both = (s.Dom|s.Dow)&starBit != 0
}
