package schedule

import "math/bits"

// dayRules are the allowed days of a month. In masks of dates bit n is the n-th; in masks of
// weekdays bit n is n days after Sunday.
type dayRules struct {
	dates    uint64 // n
	fromLast uint64 // L-n: n days before the last
	// nearest is nW: the workday (Monday to Friday) nearest to the n-th, in the same month.
	nearest uint64
	// nearestToLast is L-nW, or LW for n = 0: the workday nearest to n days before the last, in the
	// same month.
	nearestToLast uint64
	weekdays      uint64               // every such weekday
	nth           [maxWeeks + 1]uint64 // n#k: the k-th of the month
	last          uint64               // nL: the last of the month
	// both means that one of the fields is *: a day must match both, otherwise either.
	both bool
}

// of returns the allowed days of a month; bit n is the n-th. first is the weekday of its first day,
// and length its number of days.
func (r *dayRules) of(first, length int) uint64 {
	dates, weekdays := r.datesOf(first, length), r.weekdaysOf(first, length)
	if r.both {
		return dates & weekdays
	}
	return dates | weekdays
}

func (r *dayRules) datesOf(first, length int) uint64 {
	all := uint64(1)<<(length+1) - 2
	m := r.dates & all
	for rest := r.fromLast; rest != 0; rest &= rest - 1 {
		if d := length - bits.TrailingZeros64(rest); d > 0 {
			m |= 1 << d
		}
	}
	for rest := r.nearest & all; rest != 0; rest &= rest - 1 {
		m |= 1 << nearestWorkday(bits.TrailingZeros64(rest), first, length)
	}
	for rest := r.nearestToLast; rest != 0; rest &= rest - 1 {
		if d := length - bits.TrailingZeros64(rest); d > 0 {
			m |= 1 << nearestWorkday(d, first, length)
		}
	}
	return m
}

// nearestWorkday returns the workday nearest to a date in the same month. If the first is a
// Saturday, the result is the third.
func nearestWorkday(d, first, length int) int {
	switch (first + d - 1) % daysPerWeek {
	case saturday:
		if d == 1 {
			return d + 2
		}
		return d - 1
	case 0:
		if d == length {
			return d - 2
		}
		return d + 1
	}
	return d
}

func (r *dayRules) weekdaysOf(first, length int) uint64 {
	all := uint64(1)<<(length+1) - 2
	m := weeks(r.weekdays, first)
	for k, set := range r.nth {
		if set != 0 {
			m |= weeks(set, first) & (weekMask << (daysPerWeek*(k-1) + 1))
		}
	}
	if r.last != 0 {
		m |= weeks(r.last, first) &^ (1<<(length-daysPerWeek+1) - 1)
	}
	return m & all
}

// weeks repeats a set of weekdays over five weeks. Bit 1 is the weekday first.
func weeks(set uint64, first int) uint64 {
	const fiveTimes = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28
	return (set>>first | set<<(daysPerWeek-first)&weekMask) * fiveTimes << 1
}
