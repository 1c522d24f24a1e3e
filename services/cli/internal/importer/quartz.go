package importer

import (
	"fmt"
	"strings"
)

// quartzDays converts the day-of-week field of a Quartz expression, where 1 is Sunday, to names.
func quartzDays(field string) string {
	names := []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
	var b strings.Builder
	for i := range len(field) {
		c := field[i]
		after := i > 0 && (field[i-1] == '#' || field[i-1] == '/' || isLetter(field[i-1]))
		if c < '1' || c > '7' || after {
			b.WriteByte(c)
			continue
		}
		b.WriteString(names[c-'1'])
	}
	return b.String()
}

func isLetter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

// quartz converts a Quartz expression of six or seven fields, seconds first.
func quartz(spec string) (string, error) {
	const least, most, dayOfWeek = 6, 7, 5
	f := strings.Fields(spec)
	if len(f) < least || len(f) > most {
		return "", fmt.Errorf("expected 6 or 7 fields, found %q", spec)
	}
	f[dayOfWeek] = quartzDays(f[dayOfWeek])
	return strings.Join(f, " "), nil
}
