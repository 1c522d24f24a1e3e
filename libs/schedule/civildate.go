package schedule

// The proleptic Gregorian calendar in integers. Package time does the same from an instant, at
// several times the cost.

const (
	daysPerEra   = 146_097 // days in 400 years
	yearsPerEra  = 400
	epochInEra   = 719_468 // days from 0000-03-01 to 1970-01-01
	daysPerCycle = 1_461   // days in 4 years
	daysPerAge   = 36_524  // days in 100 years
)

// civil returns the date of a day, counted from 1970-01-01. Internally years begin in March, so
// that the leap day comes last.
func civil(day int64) (y, m, d int) {
	day += epochInEra
	era := floorDiv(day, daysPerEra)
	doe := day - era*daysPerEra
	yoe := (doe - doe/(daysPerCycle-1) + doe/daysPerAge - doe/(daysPerEra-1)) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153 // five months from March on have 153 days
	y = int(yoe + era*yearsPerEra)
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp) + 3
	if m > monthsPerYear {
		m -= monthsPerYear
		y++
	}
	return y, m, d
}

// daysBefore returns the days from 1970-01-01 to the first day of a month.
func daysBefore(y, m int) int64 {
	if m <= 2 {
		y--
		m += monthsPerYear
	}
	era := floorDiv(int64(y), yearsPerEra)
	yoe := int64(y) - era*yearsPerEra
	doy := int64(153*(m-3)+2) / 5
	return era*daysPerEra + yoe*365 + yoe/4 - yoe/100 + doy - epochInEra
}

func daysIn(y, m int) int {
	switch m {
	case 2:
		if y%4 == 0 && (y%100 != 0 || y%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// weekdayOf returns the weekday of a day, counted from 1970-01-01. 0 is Sunday.
func weekdayOf(day int64) int {
	w := int((day + epochWeekday) % daysPerWeek)
	if w < 0 {
		w += daysPerWeek
	}
	return w
}
