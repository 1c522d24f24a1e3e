package schedule

import (
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
	option   robfig.ParseOption
	of       func(s *robfig.SpecSchedule) uint64
	store    func(c *cron, f *fieldValue)
}

// cronFields are the fields of a spec with seven fields. robfig/cron has all of them but the year.
var cronFields = [maxFields]fieldKind{
	{
		place:   1,
		want:    "a second from 0 to 59",
		max:     59,
		starMax: 59,
		hashMax: 59,
		option:  robfig.Second,
		of:      func(s *robfig.SpecSchedule) uint64 { return s.Second },
		store:   func(c *cron, f *fieldValue) { c.second = f.bits },
	},
	{
		place:   2,
		want:    "a minute from 0 to 59",
		max:     59,
		starMax: 59,
		hashMax: 59,
		option:  robfig.Minute,
		of:      func(s *robfig.SpecSchedule) uint64 { return s.Minute },
		store:   func(c *cron, f *fieldValue) { c.minute = f.bits },
	},
	{
		place:   3,
		want:    "an hour from 0 to 23",
		max:     23,
		starMax: 23,
		hashMax: 23,
		option:  robfig.Hour,
		of:      func(s *robfig.SpecSchedule) uint64 { return s.Hour },
		store:   func(c *cron, f *fieldValue) { c.hour, c.everyHour = f.bits, f.rhythm },
	},
	{
		place:   4,
		want:    "a day of the month from 1 to 31",
		min:     1,
		max:     31,
		starMax: 31,
		hashMax: 28,
		option:  robfig.Dom,
		of:      func(s *robfig.SpecSchedule) uint64 { return s.Dom },
		store:   storeDates,
	},
	{
		place:   5,
		want:    "a month from 1 to 12 or jan to dec",
		min:     1,
		max:     12,
		starMax: 12,
		hashMax: 12,
		option:  robfig.Month,
		of:      func(s *robfig.SpecSchedule) uint64 { return s.Month },
		store:   func(c *cron, f *fieldValue) { c.month = f.bits },
	},
	{
		place:   6,
		want:    "a weekday from 0 to 7 or sun to sat",
		max:     7,
		starMax: 6,
		hashMax: 6,
		option:  robfig.Dow,
		of:      func(s *robfig.SpecSchedule) uint64 { return s.Dow },
		store:   storeWeekdays,
	},
	{
		place: 7, want: "a year from 1970 to 2199", min: minYear, max: maxYear, starMax: maxYear,
		store: func(c *cron, f *fieldValue) { c.years = f.years },
	},
}

// isDate, isWeekday and isYear identify the fields that allow L, W and #, and the one without
// wrapping ranges.
func (k *fieldKind) isDate() bool    { return k.place == 4 }
func (k *fieldKind) isWeekday() bool { return k.place == 6 }
func (k *fieldKind) isYear() bool    { return k.place == 7 }

// fieldValue is the parsed value of a field.
type fieldValue struct {
	bits   uint64   // all fields but the year
	years  yearSet  // the year
	days   dayRules // day fields: everything but plain values
	star   bool     // one item is * or ? with no step or the step 1
	rhythm bool     // the whole field is * or ?, with any step
}

func storeDates(c *cron, f *fieldValue) {
	c.days.dates, c.days.nearest = f.bits, f.days.nearest
	c.days.fromLast, c.days.nearestToLast = f.days.fromLast, f.days.nearestToLast
	c.days.both = c.days.both || f.star
}

func storeWeekdays(c *cron, f *fieldValue) {
	c.days.weekdays, c.days.nth, c.days.last = f.bits, f.days.nth, f.days.last
	c.days.both = c.days.both || f.star
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

// size returns the number of values of the field.
func (k *fieldKind) size() int { return k.starMax - k.min + 1 }

// field parses a whole field: with robfig/cron if it can, otherwise item by item.
func (s *scanner) field(k *fieldKind, c *cron, seed timer.ID) error {
	text := s.text[s.pos:s.end]
	if bits, ok := k.standard(text); ok {
		k.store(
			c,
			&fieldValue{bits: bits &^ starBit, star: bits&starBit != 0, rhythm: isRhythm(text)},
		)
		return nil
	}
	var f fieldValue
	for {
		follow, err := s.item(k, &f, seed)
		if err != nil {
			return err
		}
		if s.done() {
			k.store(c, &f)
			return nil
		}
		if !s.accept(',') {
			return s.fail(follow + `"," or the end of the field`)
		}
	}
}
