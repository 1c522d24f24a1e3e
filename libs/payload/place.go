package payload

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Place is where a text is used, which determines how values in it are escaped.
type Place uint8

// Places of texts.
const (
	URL    Place = iota // percent-encoded
	Header              // unchanged; control characters are refused
	JSON                // the inside of a JSON string
	Form                // percent-encoded
	XML                 // entities
	Text                // unchanged
)

// PlaceOf returns the place of a body with a content type. Without a content type the place is JSON
// if the body begins like JSON, because too much escaping does less harm than too little.
func PlaceOf(contentType, body string) Place {
	// Receivers read the type also where its parameters are invalid, or where a second type follows.
	// So what mime.ParseMediaType refuses must not switch off the escaping.
	t := contentType
	if end := strings.IndexAny(t, ";,"); end >= 0 {
		t = t[:end]
	}
	t = strings.ToLower(strings.TrimSpace(t))
	switch {
	case t == "":
		if s := strings.TrimLeft(
			body,
			" \t\r\n",
		); s != "" && strings.IndexByte(`{["`, s[0]) >= 0 &&
			!strings.HasPrefix(s, opening) {
			return JSON
		}
		return Text
	case t == "application/json", strings.HasSuffix(t, "+json"), t == "text/json":
		return JSON
	case t == "application/x-www-form-urlencoded":
		return Form
	case t == "application/xml", t == "text/xml", t == "text/html", strings.HasSuffix(t, "+xml"):
		return XML
	}
	return Text
}

var errControl = errors.New("has a value with a control character, which a header cannot hold")

// escape appends a value to b, escaped for its place.
func escape(b []byte, value string, p Place) ([]byte, error) {
	switch p {
	case URL, Form:
		return percent(b, value), nil
	case Header:
		for i := range len(value) {
			if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
				return b, errControl
			}
		}
		return append(b, strings.ToValidUTF8(value, "\uFFFD")...), nil
	case JSON:
		return quoteJSON(b, value), nil
	case XML:
		var buf bytes.Buffer
		if err := xml.EscapeText(&buf, []byte(value)); err != nil {
			return b, err
		}
		return append(b, buf.Bytes()...), nil
	case Text:
		return append(b, value...), nil
	}
	return b, fmt.Errorf("has a value at an unknown place %d", p)
}

const hexDigits = "0123456789ABCDEF"

// percent encodes all characters except the unreserved ones of RFC 3986. The result means the same
// in a path, a query and a form.
func percent(b []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("-._~", c) >= 0 {
			b = append(b, c)
			continue
		}
		b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// quoteJSON appends the inside of a JSON string.
func quoteJSON(b []byte, s string) []byte {
	for _, r := range s { // invalid UTF-8 becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ', r == 0x7f, r == '\u2028', r == '\u2029':
			b = append(
				b,
				'\\',
				'u',
				hexDigits[r>>12&15],
				hexDigits[r>>8&15],
				hexDigits[r>>4&15],
				hexDigits[r&15],
			)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}
