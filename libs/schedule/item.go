package schedule

import (
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

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
