package payload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Check tells whether a text can be expanded in its place. labels are those of the timer. Its error is a *timer.Error (invalid) that
// names the field, and the byte of the text from which on it is wrong.
func Check(field, src string, p Place, labels map[string]string) error {
	quoted := false
	for rest := src; ; {
		before, name, after, found, err := next(rest)
		offset := len(src) - len(rest) + len(before)
		bad := func(format string, args ...any) error {
			return timer.Invalid(field, fmt.Sprintf(format, args...)+fmt.Sprintf(" (at byte %d)", offset))
		}
		if err != nil {
			return bad("%s", err)
		}
		if !found {
			return nil
		}
		if p == JSON {
			var escaped bool
			if quoted, escaped = inString(before, quoted); escaped {
				return bad("has a variable behind a backslash, which would take a part of the value's own escaping away")
			}
		}
		k := kindOf(name)
		switch {
		case k == unknown:
			return bad("has an unknown variable %q: they are %s and label.<name>; {{open}} is a literal \"{{\"", name, names())
		case p == URL && offset < authorityEnd(src):
			return bad("has a variable before its path: scheme, host and port are fixed")
		case p == JSON && k == text && !quoted:
			return bad("has the variable %q outside a string, where a value could become anything", name)
		}
		if value, isLabel := strings.CutPrefix(name, label); isLabel {
			v, ok := labels[value]
			if !ok {
				return bad("names the label %q, which the timer does not have", value)
			}
			if _, err := escape(nil, v, p); err != nil {
				return bad("names the label %q, which %s", value, err)
			}
		}
		rest = after
	}
}

// inString tells whether what follows s stands inside a JSON string, if s itself began inside one or not, and whether a backslash
// stands just before it.
func inString(s string, quoted bool) (in, escaped bool) {
	for i := range len(s) {
		switch {
		case escaped:
			escaped = false
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			escaped = true
		}
	}
	return quoted, escaped
}

// authorityEnd returns where the path of a URL begins, or its length where it has none.
func authorityEnd(s string) int {
	at := strings.Index(s, "://")
	if at < 0 {
		return len(s)
	}
	at += len("://")
	if end := strings.IndexAny(s[at:], "/?#"); end >= 0 {
		return at + end
	}
	return len(s)
}

func names() string {
	var out []string
	for n, k := range variables {
		if k != literal {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
