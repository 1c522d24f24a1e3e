package schedule

import (
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// fieldKind is one of the fields of a spec.
type fieldKind struct {
	place    uint64 // tells the fields apart in the hash of H
	want     string // what a value of it is
	min, max int
	wrap     int // the largest value that * and open steps reach: 6 where 7 is another name of 0
	hashMax  int // the largest value of H: 28 where some months have no more; 0: there is no H
	names    []string
	store    func(c *cron, f *fieldValue)
}

// cronFields are the fields of a spec with seven.
var cronFields = [maxFields]fieldKind{
	{place: 1, want: "a second from 0 to 59", max: 59, wrap: 59, hashMax: 59, store: func(c *cron, f *fieldValue) { c.second = f.bits }},
	{place: 2, want: "a minute from 0 to 59", max: 59, wrap: 59, hashMax: 59, store: func(c *cron, f *fieldValue) { c.minute = f.bits }},
	{place: 3, want: "an hour from 0 to 23", max: 23, wrap: 23, hashMax: 23, store: storeHour},
	{place: 4, want: "a day of the month from 1 to 31", min: 1, max: 31, wrap: 31, hashMax: 28, store: storeDates},
	{
		place: 5, want: "a month from 1 to 12 or jan to dec", min: 1, max: 12, wrap: 12, hashMax: 12,
		names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
		store: func(c *cron, f *fieldValue) { c.month = f.bits },
	},
	{
		place: 6, want: "a weekday from 0 to 7 or sun to sat", max: 7, wrap: 6, hashMax: 6,
		names: strings.Fields("SUN MON TUE WED THU FRI SAT"), store: storeWeekdays,
	},
	{place: 7, want: "a year from 1970 to 2199", min: minYear, max: maxYear, wrap: maxYear, store: func(c *cron, f *fieldValue) { c.years = f.years }},
}

// isDate and isWeekday tell which fields know L, W and #.
func (k *fieldKind) isDate() bool    { return k.place == 4 }
func (k *fieldKind) isWeekday() bool { return k.place == 6 }

// fieldValue is what a field was read to be.
type fieldValue struct {
	bits  uint64   // of all fields but the year
	years yearSet  // of the year
	days  dayRules // of the day fields: all but plain values
	star  bool     // * or ?, with no step or one of 1, is among the items
	items int
	stars int // items that are * or ?, with whatever step
}

func storeHour(c *cron, f *fieldValue) {
	c.hour = f.bits
	c.everyHour = f.items == 1 && f.stars == 1
}

func storeDates(c *cron, f *fieldValue) {
	c.days.dates, c.days.fromLast, c.days.nearest, c.days.lastWorkday = f.bits, f.days.fromLast, f.days.nearest, f.days.lastWorkday
	c.days.both = c.days.both || f.star
}

func storeWeekdays(c *cron, f *fieldValue) {
	c.days.weekdays, c.days.nth, c.days.last = (f.bits|f.bits>>daysPerWeek)&weekMask, f.days.nth, f.days.last
	c.days.both = c.days.both || f.star
}

func (f *fieldValue) add(k *fieldKind, low, high, step int) {
	for v := low; v <= high; v += step {
		if k.min == minYear {
			f.years.add(v)
		} else {
			f.bits |= 1 << v
		}
	}
}

// field reads a list of items up to the end of the field.
func (s *scanner) field(k *fieldKind, c *cron, seed timer.ID) error {
	var f fieldValue
	for {
		follow, err := s.item(k, &f, seed)
		if err != nil {
			return err
		}
		f.items++
		if s.done() {
			k.store(c, &f)
			return nil
		}
		if !s.accept(',') {
			return s.fail(follow + `"," or the end of the field`)
		}
	}
}
