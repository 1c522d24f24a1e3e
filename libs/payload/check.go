package payload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Check returns whether a text can be expanded in its place. labels are those of the timer. Its
// error is a *timer.Error (invalid) with the field and the byte offset of the fault.
func Check(field, src string, p Place, labels map[string]string) error {
	quoted := false
	for rest := src; ; {
		before, name, after, found, err := next(rest)
		offset := len(src) - len(rest) + len(before)
		bad := func(format string, args ...any) error {
			return timer.Invalid(field, fmt.Sprintf("at %d: ", offset)+fmt.Sprintf(format, args...))
		}
		if err != nil {
			return bad("expected {{variable}}, found a text that %s", err)
		}
		if !found {
			return nil
		}
		if p == JSON {
			var escaped bool
			if quoted, escaped = inString(before, quoted); escaped {
				return bad(
					"expected no backslash before a variable, as it would take a part of the value's own escaping away, found one",
				)
			}
		}
		k := kindOf(name)
		switch {
		case k == unknown:
			return bad(
				"expected one of the variables %s and label.<name>, found %q: write {{open}} for a literal \"{{\"",
				names(),
				name,
			)
		case p == URL && offset < authorityEnd(src):
			return bad(
				"expected scheme, host and port without variables, found one: write them out",
			)
		case p == JSON && k == text && !quoted:
			return bad(
				"expected variables of JSON within strings, found %q outside, where its value could become anything",
				name,
			)
		}
		if value, isLabel := strings.CutPrefix(name, label); isLabel {
			v, ok := labels[value]
			if !ok {
				return bad(
					"expected a label that the timer has, found %q: give it among labels",
					value,
				)
			}
			if _, err := escape(nil, v, p); err != nil {
				return bad("expected a label whose value fits here, found %q, which %s", value, err)
			}
		}
		rest = after
	}
}

// inString returns whether the text after s is inside a JSON string, given whether s itself began
// inside one. escaped tells whether s ends with a backslash that escapes the next character.
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

// authorityEnd returns where the path of a URL begins, or its length without one.
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
