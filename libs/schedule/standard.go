package schedule

import (
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"
)

// starBit is set by robfig/cron for * or ? without a step or with the step 1.
const starBit = 1 << 63

const allFields = robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow

// standardSpec parses a spec of six fields with robfig/cron. It returns false for invalid specs,
// and for specs that need the extensions of this package. Then each field is parsed by itself,
// which locates the error.
func standardSpec(fields []string) (*cron, bool) {
	for i, text := range fields {
		if !cronFields[i].isStandard(text) {
			return nil, false
		}
	}
	spec, ok := parseStandard(strings.Join(fields, " "), allFields)
	if !ok {
		return nil, false
	}
	c := fromStandard(spec)
	c.everyHour = isRhythm(fields[2])
	return c, true
}

// standard is standardSpec for one field. It returns the bits of the field.
func (k *fieldKind) standard(text string) (bits uint64, ok bool) {
	if k.option == 0 || !k.isStandard(text) {
		return 0, false
	}
	spec, ok := parseStandard(text, k.option)
	if !ok {
		return 0, false
	}
	return k.of(spec), true
}

func parseStandard(text string, fields robfig.ParseOption) (*robfig.SpecSchedule, bool) {
	parsed, err := robfig.NewParser(fields).Parse(text)
	spec, ok := parsed.(*robfig.SpecSchedule)
	return spec, ok && err == nil
}

// isStandard reports whether robfig/cron and this package parse a field in the same way.
// robfig/cron also accepts empty items, signs before numbers, anything after a star, and steps of
// any size.
func (k *fieldKind) isStandard(text string) bool {
	for item := range strings.SplitSeq(text, ",") {
		values, step, stepped := strings.Cut(item, "/")
		if n, err := strconv.Atoi(
			step,
		); stepped &&
			(err != nil || !isWord(step) || n > k.maxStep()) {
			return false
		}
		if values == "*" || values == "?" {
			continue
		}
		low, high, ranged := strings.Cut(values, "-")
		if !isWord(low) || ranged && !isWord(high) {
			return false
		}
	}
	return true
}

// isWord reports whether a text is a number or a name.
func isWord(text string) bool {
	for i := range len(text) {
		if c := text[i] | 0x20; (c < 'a' || c > 'z') && (text[i] < '0' || text[i] > '9') {
			return false
		}
	}
	return text != ""
}

// maxStep returns the largest step that reaches a second value of the field.
func (k *fieldKind) maxStep() int { return k.starMax - k.min }

// isRhythm reports whether a field is * or */n, and not a list. Such an hour field means a rhythm
// instead of times of day.
func isRhythm(text string) bool {
	return (text[0] == '*' || text[0] == '?') && !strings.Contains(text, ",")
}

// fromStandard converts the result of robfig/cron. It recognizes only a star without a step.
func fromStandard(s *robfig.SpecSchedule) *cron {
	c := &cron{years: everyYear}
	for i := range cronFields {
		if k := &cronFields[i]; k.option != 0 {
			bits := k.of(s)
			k.store(
				c,
				&fieldValue{
					bits:   bits &^ starBit,
					star:   bits&starBit != 0,
					rhythm: bits&starBit != 0,
				},
			)
		}
	}
	return c
}
