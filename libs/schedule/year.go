package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// The years that schedules know.
const (
	minYear = 1970
	maxYear = 2199
)

// maxMS is the end of maxYear in UTC: no instant of a cron lies behind it.
var maxMS = daysBefore(maxYear+1, 1) * secondsPerDay * 1000

// yearSet is which of the years are allowed.
type yearSet [maxYear - minYear + 1]bool

func allYears() yearSet {
	var y yearSet
	for i := range y {
		y[i] = true
	}
	return y
}

// parseYears reads a year field: *, ?, lists, ranges and steps.
func parseYears(field string) (yearSet, error) {
	var set yearSet
	for part := range strings.SplitSeq(field, ",") {
		from, to, by, err := parseYearRange(part)
		if err != nil {
			return set, err
		}
		for y := from; y <= to; y += by {
			set[y-minYear] = true
		}
	}
	return set, nil
}

func parseYearRange(part string) (from, to, by int, err error) {
	base, step, stepped := strings.Cut(part, "/")
	low, high, ranged := strings.Cut(base, "-")
	from, to, by = minYear, maxYear, 1
	if base != "*" && base != "?" {
		if from, err = parseYear(low); err != nil {
			return 0, 0, 0, err
		}
		switch {
		case ranged:
			if to, err = parseYear(high); err != nil {
				return 0, 0, 0, err
			}
		case !stepped: // "2030/4" is from 2030 on
			to = from
		}
	}
	if from > to {
		return 0, 0, 0, fmt.Errorf("the years %q end before they begin", base)
	}
	if stepped {
		if by, err = strconv.Atoi(step); err != nil || by < 1 || by > maxYear {
			return 0, 0, 0, fmt.Errorf("%q is not a step of years", step)
		}
	}
	return from, to, by, nil
}

func parseYear(s string) (int, error) {
	y, err := strconv.Atoi(s)
	if err != nil || y < minYear || y > maxYear {
		return 0, fmt.Errorf("%q is not a year from %d to %d", s, minYear, maxYear)
	}
	return y, nil
}
