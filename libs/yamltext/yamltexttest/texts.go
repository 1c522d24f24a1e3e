// Package yamltexttest has texts for tests of what writes and reads YAML.
package yamltexttest

import (
	"slices"
	"strings"
)

// Words returns texts that a reader of YAML can take for another value, or for its syntax.
func Words() []string {
	return []string{
		"", "y", "n", "Y", "N", "yes", "no", "Yes", "No", "YES", "NO",
		"on", "off", "On", "Off", "ON", "OFF", "true", "false", "True", "False",
		"null", "Null", "~", "=", "<<",
		"0", "012", "0o17", "0b11", "0x1F", "-7", "+7", "1_000", "1e3", "1.5", ".5",
		"1:30", "1:30.5",
		"18446744073709551615", "99999999999999999999", ".inf", "-.Inf", ".nan", ".NaN",
		"2026-01-01", "2026-01-01T09:00:00Z", "2026-01-01 09:00:00 +02:00",
		" ", " a", "a ", "\ta", "a\t", "- a", "-", "a: b", "a:", ":", "#x", "a #x",
		"?", "? a", "*a", "&a",
		"!a", "|", ">", "%a", "@a", "`a", "'a'", `"a"`, `a\n`, "{a}", "[a]",
		"a, b", "---", "...", "--- a", "REDACTED",
		"a\nb", "a\n", "\na", "\n", "\n\n", "a\n\n", " a\n b", "a \nb",
		"a\n b\n", "a\n\tb", "a\tb",
		"a\n---\nb", "a\n# b", "a\r\nb", "a\rb", "\r", "é 世 😀",
	}
}

// Characters returns texts with one character each: all below U+00A0, and others that a reader of
// YAML refuses or changes.
func Characters() (texts []string) {
	for r := rune(0); r <= 0xa0; r++ {
		texts = append(texts, "a"+string(r)+"b")
	}
	for _, r := range []rune{0x2028, 0x2029, 0xfeff, 0xfffd, 0xfffe, 0xffff, 0x1f600, 0x10ffff} {
		texts = append(texts, "a"+string(r)+"b", string(r), "a\n"+string(r))
	}
	return texts
}

// Few returns all of them in fewer texts, for tests that are slow.
func Few() []string {
	texts := Words()
	for some := range slices.Chunk(Characters(), 10) {
		texts = append(texts, strings.Join(some, ""))
	}
	return texts
}
