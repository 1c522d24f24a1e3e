package schedule

import (
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"
)

// starBit is what robfig/cron sets in a field of * or ?, with no step or one of 1.
const starBit = 1 << 63

const allFields = robfig.Second | robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow

// standardSpec reads a spec of six fields by robfig/cron. It returns false for specs that only the
// extensions of this package explain, and for wrong ones: then each field is read by itself, and
// what is wrong is found where it stands.
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

// standard is standardSpec of one field, and returns its bits.
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

// isStandard tells whether a field has a shape that robfig/cron and this package read the same way.
// By itself that package also takes empty items, signs before numbers, whatever follows a star, and
// steps of any length.
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

// isWord tells whether a text is a number or a name.
func isWord(text string) bool {
	for i := range len(text) {
		if c := text[i] | 0x20; (c < 'a' || c > 'z') && (text[i] < '0' || text[i] > '9') {
			return false
		}
	}
	return text != ""
}

// maxStep returns the largest step that gets from one value of the field to another.
func (k *fieldKind) maxStep() int { return k.starMax - k.min }

// isRhythm tells whether a field is * or */n and no list, which asks for a rhythm and not for times
// of day.
func isRhythm(text string) bool {
	return (text[0] == '*' || text[0] == '?') && !strings.Contains(text, ",")
}

// fromStandard returns what robfig/cron read. Only a star without a step is known for one.
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
