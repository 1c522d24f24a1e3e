package ui

import (
	"regexp"
	"strconv"
	"strings"
)

// describeSchedule returns a schedule in words. Of cron it knows the common forms; it shows others
// as they are, because a wrong sentence is worse than an expression.
func (v *views) describeSchedule(s schedule) string {
	t := v.texts
	switch s.Kind {
	case "interval":
		return t.get("every", s.Every)
	case "fixed_delay":
		return t.get("every_after", s.Every)
	case "at":
		return t.get("once_at", localTime(s.At, s.TimeZone))
	case "delay":
		return t.get("once_after", s.Delay)
	case "cron":
		parts := make([]string, 0, len(s.Specs))
		for _, spec := range s.Specs {
			parts = append(parts, v.describeCron(spec))
		}
		return strings.Join(parts, t.get("cron_separator"))
	}
	return s.Kind
}

var (
	number   = regexp.MustCompile(`^\d{1,2}$`)
	fraction = regexp.MustCompile(`^(?:\*|0)/([1-9]\d?)$`)
)

func (v *views) describeCron(spec string) string {
	t, f := v.texts, strings.Fields(strings.ToLower(spec))
	second := "0"
	if len(f) == 6 { // the second comes first
		second, f = f[0], f[1:]
	}
	if len(f) != 5 {
		return spec
	}
	minute, hour, day, month, weekday := f[0], f[1], anyDay(f[2]), anyDay(f[3]), anyDay(f[4])
	days := v.describeDays(day, month, weekday)
	often := days // what is due more than once a day needs no day
	if day == "*" && month == "*" && weekday == "*" {
		often = ""
	}
	every, seconds := fraction.FindStringSubmatch(minute), fraction.FindStringSubmatch(second)
	switch {
	case days == "":
		return spec
	case second != "0":
		switch {
		case minute != "*" || hour != "*":
			return spec
		case second == "*":
			return often + t.get("each_second")
		case len(seconds) > 0 && 60%toInt(seconds[1]) == 0:
			return often + t.get("each_seconds", seconds[1])
		}
		return spec
	case minute == "*" && hour == "*":
		return often + t.get("each_minute")
	case hour == "*" && len(every) > 0 && 60%toInt(every[1]) == 0:
		return often + t.get("each_minutes", every[1])
	case number.MatchString(minute) && hour == "*":
		return often + t.get("each_hour", toInt(minute))
	case number.MatchString(minute) && number.MatchString(hour):
		return days + t.get("at_time", toInt(hour), toInt(minute))
	}
	return spec
}

// describeDays returns on which days a cron expression matches, or nothing for a form it does not
// know. Every day is "each_day".
func (v *views) describeDays(day, month, weekday string) string {
	t := v.texts
	switch {
	case month != "*":
		return ""
	case day == "*" && weekday == "*":
		return t.get("each_day")
	case day == "*":
		return v.describeWeekdays(weekday)
	case weekday == "*" && number.MatchString(day):
		return t.get("each_month", toInt(day))
	case weekday == "*" && day == "l":
		return t.get("last_day")
	}
	return ""
}

var weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (v *views) describeWeekdays(list string) string {
	from, to, isRange := strings.Cut(list, "-")
	a, b := weekdayOf(from), weekdayOf(to)
	switch {
	case isRange && a != "" && b != "":
		return v.texts.get(
			"weekdays_range",
			v.texts.value("weekday", a),
			v.texts.value("weekday", b),
		)
	case isRange:
		return ""
	}
	names := strings.Split(list, ",")
	for i, n := range names {
		n = weekdayOf(n)
		if n == "" {
			return ""
		}
		names[i] = v.texts.value("weekday", n)
	}
	return v.texts.get("weekdays", strings.Join(names, v.texts.get("list_separator")))
}

func weekdayOf(text string) string {
	for i, n := range weekdayNames {
		if text == n || text == strconv.Itoa(i) || i == 0 && text == "7" {
			return n
		}
	}
	return ""
}

// anyDay returns * for the other way to write it.
func anyDay(field string) string {
	if field == "?" {
		return "*"
	}
	return field
}

func toInt(digits string) int {
	n, _ := strconv.Atoi(digits) // the caller has matched digits
	return n
}
