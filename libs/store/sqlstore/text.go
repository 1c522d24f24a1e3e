package sqlstore

import (
	"strings"
	"unicode/utf8"
)

// clip makes a text fit a column of so many bytes: valid UTF-8, cut between characters.
func clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
