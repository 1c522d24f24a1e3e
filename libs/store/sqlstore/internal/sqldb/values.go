package sqldb

import (
	"strings"
	"unicode/utf8"
)

// Clip shortens a text to at most limit bytes of valid UTF-8, between characters.
func Clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// NonNil returns bytes that the database does not take for NULL.
func NonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// ASCII makes a text fit a column of printable ASCII.
func ASCII(text string, limit int) string {
	b := []byte(text)
	for i := range b {
		if b[i] < ' ' || b[i] > '~' {
			b[i] = '?'
		}
	}
	return string(b[:min(len(b), limit)])
}

// Flag returns how a truth is stored.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
