package schedule

import (
	"fmt"
	"math/bits"

	"github.com/carillon-timer/carillon/libs/timer"
)

// item parses one item that robfig/cron does not support: a wrapping range, a weekday 7, a year, L,
// W, # or H. It also locates the error of an invalid item. follow describes what else could have
// followed it.
func (s *scanner) item(k *fieldKind, f *fieldValue, seed timer.ID) (follow string, err error) {
	switch {
	case s.accept('*') || s.accept('?'):
		step, follow, err := s.step(k)
		if err != nil {
			return "", err
		}
		f.add(k, k.min, k.starMax, step)
		return follow, nil
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
	case '/': // 5/15 starts at 5
		if high = k.starMax; low > high { // 7/2 is 0/2
			low -= k.size()
		}
	default:
		f.add(k, low, low, 1)
		return `"-", "/", `, nil
	}
	step, follow, err := s.step(k)
	if err != nil {
		return "", err
	}
	f.add(k, low, high, step)
	return follow, nil
}

// rangeEnd parses the end of a range. An end below the start belongs to the next hour, day, week,
// month or year: 22-2 is 22 to 26, of which 24 is 0. Only years do not wrap. Sunday is below Monday
// as a start, and above Saturday as an end.
func (s *scanner) rangeEnd(k *fieldKind, low int) (from, to int, err error) {
	at := s.pos
	high, err := s.value(k)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case high >= low:
	case k.isYear():
		return 0, 0, s.failAt(at, "the end of the range, "+fromTo(low, k.max))
	case low > k.starMax: // 7-2 is 0-2
		low -= k.size()
	default:
		high += k.size()
	}
	return low, high, nil
}

// value parses a number or a name. robfig/cron has the list of names.
func (s *scanner) value(k *fieldKind) (int, error) {
	const nameLen = 3
	at := s.pos
	if word := s.letters(); len(word) >= nameLen {
		if set, ok := k.standard(word[:nameLen]); ok {
			s.pos += nameLen
			return bits.TrailingZeros64(set), nil
		}
	}
	n, ok := s.number()
	switch {
	case ok && n >= k.min && n <= k.max:
		return n, nil
	case k.isYear() && n > k.max:
		return 0, s.failAt(at, fmt.Sprintf("a year up to %d, with which schedules end", k.max))
	}
	return 0, s.failAt(at, k.want)
}

// step parses an optional "/n"; the default is 1. A step that never reaches a second value is an
// error: minutes */60 and */90 are both only 0.
func (s *scanner) step(k *fieldKind) (n int, follow string, err error) {
	if !s.accept('/') {
		return 1, `"/", `, nil
	}
	at := s.pos
	switch n, _ = s.number(); {
	case n < 1:
		return 0, "", s.failAt(at, "a step of at least 1")
	case n > k.maxStep():
		return 0, "", s.failAt(
			at,
			fmt.Sprintf(
				"a step of at most %d, as a longer one never gets to a second value (@every and interval have any distance)",
				k.maxStep(),
			),
		)
	}
	return n, "", nil
}

// lastDate parses what follows L in the day of month: nothing or "-n", then nothing or "W".
func (s *scanner) lastDate(f *fieldValue) (follow string, err error) {
	const most = 30 // L-30 is the first day of a month of 31 days
	before, follow := 0, `"W", "-", `
	if s.accept('-') {
		at := s.pos
		if before, _ = s.number(); before < 1 || before > most {
			return "", s.failAt(at, "days before the month's last, "+fromTo(1, most))
		}
		follow = `"W", `
	}
	if s.accept('W') {
		f.days.nearestToLast |= 1 << before
		return "", nil
	}
	f.days.fromLast |= 1 << before
	return follow, nil
}

// hash parses what follows H: an optional range in brackets and an optional step. The timer's id
// chooses the value, or the first value of the steps.
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
	step, follow, err := s.step(k)
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
