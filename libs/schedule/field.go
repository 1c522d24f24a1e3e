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

// item reads one item of a list. follow is what else could have come behind it.
func (s *scanner) item(k *fieldKind, f *fieldValue, seed timer.ID) (follow string, err error) {
	switch {
	case s.accept('*') || s.accept('?'):
		step, follow, err := s.step()
		f.stars++
		f.star = f.star || step == 1
		f.add(k, k.min, k.wrap, step)
		return follow, err
	case k.hashMax > 0 && s.accept('H'):
		return s.hash(k, f, seed)
	case k.isDate() && s.accept('L'):
		return s.lastDate(f)
	}
	low, err := s.value(k)
	if err != nil {
		return "", err
	}
	switch {
	case k.isDate() && s.accept('W'):
		f.days.nearest |= 1 << low
		return "", nil
	case k.isWeekday() && s.accept('L'):
		f.days.last |= 1 << (low % daysPerWeek)
		return "", nil
	case k.isWeekday() && s.accept('#'):
		at := s.pos
		n, _ := s.number()
		if n < 1 || n > maxWeeks {
			return "", s.failAt(at, "which of the month's such weekdays, from 1 to 5")
		}
		f.days.nth[n] |= 1 << (low % daysPerWeek)
		return "", nil
	}
	return s.valueOrRange(k, f, low)
}

func (s *scanner) valueOrRange(k *fieldKind, f *fieldValue, low int) (follow string, err error) {
	var high int
	switch s.peek() {
	case '-':
		s.pos++
		if low, high, err = s.rangeEnd(k, low); err != nil {
			return "", err
		}
	case '/': // 5/15 is from 5 on
		high = max(low, k.wrap)
	default:
		f.add(k, low, low, 1)
		return `"-", "/", `, nil
	}
	step, follow, err := s.step()
	f.add(k, low, high, step)
	return follow, err
}

// rangeEnd reads the second value of a range. Sunday is below Monday as the first, above Saturday as the second.
func (s *scanner) rangeEnd(k *fieldKind, low int) (from, to int, err error) {
	at := s.pos
	high, err := s.value(k)
	if err != nil {
		return 0, 0, err
	}
	if k.isWeekday() {
		if low == daysPerWeek && high < daysPerWeek {
			low = 0
		}
		if high == 0 && low > 0 {
			high = daysPerWeek
		}
	}
	if high < low {
		return 0, 0, s.failAt(at, "the end of the range, "+fromTo(low, k.max))
	}
	return low, high, nil
}

// value reads a number or a name.
func (s *scanner) value(k *fieldKind) (int, error) {
	at := s.pos
	if word := s.letters(); len(word) >= 3 {
		for i, name := range k.names {
			if strings.EqualFold(word[:3], name) {
				s.pos += 3
				return k.min + i, nil
			}
		}
	}
	if n, ok := s.number(); ok && n >= k.min && n <= k.max {
		return n, nil
	}
	return 0, s.failAt(at, k.want)
}

// step reads "/n" if it is there; else the step is 1.
func (s *scanner) step() (n int, follow string, err error) {
	if !s.accept('/') {
		return 1, `"/", `, nil
	}
	at := s.pos
	if n, _ = s.number(); n < 1 {
		return 1, "", s.failAt(at, "a step of at least 1")
	}
	return n, "", nil
}

// lastDate reads what follows L in the day of the month: nothing, "W" or "-n".
func (s *scanner) lastDate(f *fieldValue) (follow string, err error) {
	const most = 30 // the first of the longest months
	switch {
	case s.accept('W'):
		f.days.lastWorkday = true
		return "", nil
	case s.accept('-'):
		at := s.pos
		n, _ := s.number()
		if n < 1 || n > most {
			return "", s.failAt(at, "days before the month's last, "+fromTo(1, most))
		}
		f.days.fromLast |= 1 << n
		return "", nil
	}
	f.days.fromLast |= 1
	return `"W", "-", `, nil
}

// hash reads what follows H: a range in brackets, a step, both or nothing. It stands for one value, or for one first value of a stepped
// range, which the timer's id chooses.
func (s *scanner) hash(k *fieldKind, f *fieldValue, seed timer.ID) (follow string, err error) {
	low, high := k.min, k.hashMax
	if s.accept('(') {
		if low, err = s.value(k); err != nil {
			return "", err
		}
		if !s.accept('-') {
			return "", s.fail(`"-" and the end of the range`)
		}
		if low, high, err = s.rangeEnd(k, low); err != nil {
			return "", err
		}
		if !s.accept(')') {
			return "", s.fail(`")"`)
		}
	}
	stepped := s.peek() == '/'
	step, follow, err := s.step()
	if err != nil {
		return "", err
	}
	span := high - low + 1
	h := mix(mix(uint64(seed)) ^ k.place) //nolint:gosec // ids are not negative
	if !stepped {
		v := low + int(h%uint64(span)) //nolint:gosec // below span
		f.add(k, v, v, 1)
		return follow, nil
	}
	first := low + int(h%uint64(min(span, step))) //nolint:gosec // below span
	f.add(k, first, high, step)
	return follow, nil
}
