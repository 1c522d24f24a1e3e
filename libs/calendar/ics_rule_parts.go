package calendar

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teambition/rrule-go"
)

// icsRule is an RRULE.
type icsRule struct {
	opts  rrule.ROption // all but DTSTART and UNTIL
	until *moment       // nil means no UNTIL
}

// numbers are the valid numbers of a part of a rule. Signed numbers also count from the end, and
// are not 0.
type numbers struct {
	min, max int
	signed   bool
	store    func(o *rrule.ROption, n []int)
}

// numberParts has the bounds of RFC 5545. It has none for COUNT and INTERVAL: 99999 days are 273
// years.
var numberParts = map[string]numbers{
	"COUNT":      {1, 999_999_999, false, func(o *rrule.ROption, n []int) { o.Count = n[0] }},
	"INTERVAL":   {1, 99_999, false, func(o *rrule.ROption, n []int) { o.Interval = n[0] }},
	"BYMONTH":    {1, 12, false, func(o *rrule.ROption, n []int) { o.Bymonth = n }},
	"BYMONTHDAY": {1, 31, true, func(o *rrule.ROption, n []int) { o.Bymonthday = n }},
	"BYYEARDAY":  {1, 366, true, func(o *rrule.ROption, n []int) { o.Byyearday = n }},
	"BYWEEKNO":   {1, 53, true, func(o *rrule.ROption, n []int) { o.Byweekno = n }},
	"BYSETPOS":   {1, 366, true, func(o *rrule.ROption, n []int) { o.Bysetpos = n }},
}

var (
	frequencies = map[string]rrule.Frequency{
		"YEARLY":  rrule.YEARLY,
		"MONTHLY": rrule.MONTHLY,
		"WEEKLY":  rrule.WEEKLY,
		"DAILY":   rrule.DAILY,
	}
	ruleWeekdays = map[string]rrule.Weekday{
		"MO": rrule.MO,
		"TU": rrule.TU,
		"WE": rrule.WE,
		"TH": rrule.TH,
		"FR": rrule.FR,
		"SA": rrule.SA,
		"SU": rrule.SU,
	}
	byDayForm = regexp.MustCompile(`^([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)$`)
)

const (
	maxWeeks     = 5  // occurrences of one weekday in a month
	maxPositions = 12 // rrule-go goes through a year for each of them
)

// readRule parses a rule. Its error names the invalid part.
func readRule(p *icsProperty) (*icsRule, error) {
	text := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(p.value)), ";")
	r := &icsRule{}
	parts := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		if _, twice := parts[name]; twice {
			return nil, p.wrong("expected each part once, found %q a second time", clip(part))
		}
		parts[name] = value
		if expected := r.part(name, value); expected != "" {
			return nil, p.wrong("expected %s, found %q", expected, clip(part))
		}
	}
	freq, known := frequencies[parts["FREQ"]]
	if !known {
		return nil, p.wrong(
			"expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found %q",
			clip(parts["FREQ"]),
		)
	}
	r.opts.Freq = freq
	if expected := r.together(parts); expected != "" {
		return nil, p.wrong("expected %s, found %q", expected, clip(p.value))
	}
	return r, nil
}

// part parses one part of a rule. If it is invalid, it returns what was expected.
func (r *icsRule) part(name, value string) (expected string) {
	if n, ok := numberParts[name]; ok {
		return r.numbers(name, value, n)
	}
	switch name {
	case "FREQ":
		return ""
	case "UNTIL":
		until, err := readMoment(value)
		if r.until = &until; err != nil {
			return "UNTIL= and a date such as 20301231 or a time such as 20301231T090000Z"
		}
	case "WKST":
		day, ok := ruleWeekdays[value]
		if r.opts.Wkst = day; !ok {
			return "WKST= and a weekday such as MO"
		}
	case "BYDAY":
		return r.byDay(value)
	case "BYHOUR", "BYMINUTE", "BYSECOND":
		// Only the dates count, so a rule by hours would generate many useless occurrences.
		return "a rule without hours, minutes and seconds"
	default:
		return "parts such as FREQ=YEARLY and BYMONTH=12"
	}
	return ""
}

// numbers parses a list of numbers, or the number of COUNT and INTERVAL.
func (r *icsRule) numbers(name, value string, n numbers) (expected string) {
	list := name != "COUNT" && name != "INTERVAL"
	expected = fmt.Sprintf("%s= and a number from %d to %d", name, n.min, n.max)
	switch {
	case n.signed:
		expected = fmt.Sprintf(
			"%s= and numbers from %d to %d or -%[3]d to -%[2]d",
			name,
			n.min,
			n.max,
		)
	case list:
		expected = fmt.Sprintf("%s= and numbers from %d to %d", name, n.min, n.max)
	}
	var out []int
	for text := range strings.SplitSeq(value, ",") {
		v, err := strconv.Atoi(text)
		size := v
		if n.signed {
			size = max(v, -v)
		}
		if name == "BYSETPOS" && len(out) == maxPositions {
			return fmt.Sprintf("BYSETPOS= and at most %d numbers", maxPositions)
		}
		if err != nil || size < n.min || size > n.max || len(out) > 0 && !list || len(out) > n.max {
			return expected
		}
		out = append(out, v)
	}
	n.store(&r.opts, out)
	return ""
}

func (r *icsRule) byDay(value string) (expected string) {
	const most = 53 // weeks in a year
	expected = "BYDAY= and weekdays such as SA,SU or 4TH or -1MO"
	for text := range strings.SplitSeq(value, ",") {
		m := byDayForm.FindStringSubmatch(text)
		if m == nil {
			return expected
		}
		day := ruleWeekdays[m[2]]
		if m[1] != "" {
			n, err := strconv.Atoi(m[1])
			if err != nil || n == 0 || max(n, -n) > most {
				return expected
			}
			day = day.Nth(n)
		}
		r.opts.Byweekday = append(r.opts.Byweekday, day)
	}
	return ""
}

// together checks the combinations of parts (RFC 5545, 3.3.10). If they are invalid, it returns
// what was expected.
func (r *icsRule) together(parts map[string]string) (expected string) {
	has := func(name string) bool { _, ok := parts[name]; return ok }
	freq := r.opts.Freq
	counted := slices.ContainsFunc(
		r.opts.Byweekday,
		func(day rrule.Weekday) bool { return day.N() != 0 },
	)
	many := slices.ContainsFunc(
		r.opts.Byweekday,
		func(day rrule.Weekday) bool { return max(day.N(), -day.N()) > maxWeeks },
	)
	by := slices.ContainsFunc(
		[]string{"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYMONTH"},
		has,
	)
	switch {
	case has("COUNT") && has("UNTIL"):
		return "COUNT or UNTIL and not both"
	case has("BYWEEKNO") && freq != rrule.YEARLY:
		return "BYWEEKNO with FREQ=YEARLY only"
	case has("BYYEARDAY") && freq != rrule.YEARLY:
		return "BYYEARDAY with FREQ=YEARLY only"
	case has("BYMONTHDAY") && freq == rrule.WEEKLY:
		return "BYMONTHDAY with another FREQ than WEEKLY"
	case counted && freq != rrule.YEARLY && freq != rrule.MONTHLY:
		return "a number before a weekday with FREQ=YEARLY or MONTHLY only"
	case counted && has("BYWEEKNO"):
		return "a weekday without a number, as BYWEEKNO is there"
	// rrule-go would search beyond the year for it
	case many && (freq == rrule.MONTHLY || has("BYMONTH")):
		return "numbers from 1 to 5 or -5 to -1 before weekdays, as a month has no more"
	case has("BYSETPOS") && !by:
		return "BYSETPOS with another part such as BYDAY"
	}
	return ""
}
