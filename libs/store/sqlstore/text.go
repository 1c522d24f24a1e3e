package sqlstore

import (
	"strings"
	"unicode/utf8"
)

// clip shortens a text to at most limit bytes of valid UTF-8, between characters.
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
