package calendar

import (
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

// recur takes the occurrences of a rule.
func (c *icsFile) recur(p *icsProperty, start time.Time, take func(*dayset, time.Time) error) error {
	opts, err := readRule(p, start.Location())
	if err != nil {
		return err
	}
	opts.Dtstart = start
	to := &c.listed
	end := time.Date(EndlessUntil+1, 1, 1, 0, 0, 0, -1, start.Location())
	if late := opts.Until.After(end); late || opts.Until.IsZero() {
		opts.Until = end
		if late || opts.Count == 0 {
			to, c.isEndless = &c.endless, true
		}
	}
	r, err := rrule.NewRRule(*opts)
	if err != nil {
		return p.wrong("expected a rule such as FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25, found %q: %w", clip(p.value), err)
	}
	next := r.Iterator()
	n := 0
	for at, ok := next(); ok; at, ok = next() {
		if n++; n == 1 && at.Equal(start) {
			continue
		}
		if err := take(to, at); err != nil {
			return p.wrong("%w", err)
		}
	}
	if n == 0 {
		if c.barren++; c.barren > maxBarren {
			return p.wrong("expected a rule that matches some day, found %q, which never does, like %d before it", clip(p.value), maxBarren)
		}
	}
	return nil
}

var ruleParts = []string{
	"FREQ", "UNTIL", "COUNT", "INTERVAL", "BYSECOND", "BYMINUTE", "BYHOUR", "BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYMONTH", "BYSETPOS", "WKST",
}

// ruleExamples is what is expected of parts of a rule that cannot be read.
var ruleExamples = map[string]string{
	"UNTIL": "a date such as 20301231 or a time such as 20301231T090000Z",
	"BYDAY": "weekdays such as SA,SU or 4TH or -1MO",
	"WKST":  "a weekday such as MO",
}

// readRule names the part of a rule that cannot be read.
func readRule(p *icsProperty, loc *time.Location) (*rrule.ROption, error) {
	text := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(p.value)), ";")
	freq := ""
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case !slices.Contains(ruleParts, name):
			return nil, p.wrong("expected parts such as FREQ=YEARLY and BYMONTH=12, found %q", clip(part))
		case name == "FREQ":
			freq = value
		// Of a rule by the hour, or by hours, nothing but the date would count, and a thousand occurrences would be one.
		case name == "BYHOUR" || name == "BYMINUTE" || name == "BYSECOND":
			return nil, p.wrong("expected a rule without hours, minutes and seconds, found %q", clip(part))
		default:
			if _, err := rrule.StrToROptionInLocation("FREQ=DAILY;"+part, loc); err != nil {
				example := ruleExamples[name]
				if example == "" {
					example = "numbers such as 1,15"
				}
				return nil, p.wrong("expected %s= and %s, found %q", name, example, clip(part))
			}
		}
	}
	if !slices.Contains([]string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY"}, freq) {
		return nil, p.wrong("expected FREQ=YEARLY, MONTHLY, WEEKLY or DAILY, found %q", clip(freq))
	}
	opts, err := rrule.StrToROptionInLocation(text, loc)
	if err != nil {
		return nil, p.wrong("expected a rule such as FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25, found %q: %w", clip(p.value), err)
	}
	return opts, nil
}
