package callback

import (
	"cmp"
	"encoding/base64"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const redacted = "REDACTED"

// minSecretLen is the minimum length of a secret that is redacted. Shorter ones would also match
// parts of ordinary words.
const minSecretLen = 6

// redactResult redacts secrets in the recorded texts, including the request's completion token. A
// receiver may return a secret whole, without its scheme ("Bearer …"), escaped, in base64, or
// truncated at the end of the excerpt.
func redactResult(r Result, q *Request, secrets []secretHeader) Result {
	if r.Excerpt == "" && r.Error == "" && len(r.Headers) == 0 ||
		len(secrets) == 0 && q.Token == "" {
		return r
	}
	wanted := secretForms(nil, q.Token)
	for _, s := range secrets {
		value := trimBlanks(s.value) // as it is sent
		wanted = secretForms(wanted, value)
		scheme, credentials, ok := strings.Cut(value, " ")
		if !ok {
			continue
		}
		wanted = secretForms(wanted, credentials)
		if plain, err := base64.StdEncoding.DecodeString(
			credentials,
		); err == nil &&
			strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			wanted = secretForms(secretForms(wanted, string(plain)), password)
		}
	}
	r.Excerpt, r.Error = redactAll(r.Excerpt, wanted), redactAll(r.Error, wanted)
	for name, value := range r.Headers {
		r.Headers[name] = redactAll(value, wanted)
	}
	return r
}

// secretForms appends the forms in which a secret is searched: itself and its base64. Within a
// longer text its base64 has three forms, by its offset modulo three. Characters that also encode
// neighbouring bytes are left out.
func secretForms(to []string, secret string) []string {
	if len(secret) < minSecretLen {
		return to
	}
	to = append(to, secret)
	for before := range 3 {
		padded := "\x00\x00"[:before] + secret
		// This form has no following bytes.
		last := base64.RawStdEncoding.EncodeToString([]byte(padded))[(before*8+5)/6:]
		inside := last[:len(padded)*8/6-(before*8+5)/6]
		to = append(to, inside)
		if last != inside {
			to = append(to, last)
		}
		if url := strings.NewReplacer("+", "-", "/", "_").Replace(last); url != last {
			to = append(to, url[:len(inside)], url)
		}
	}
	return to
}

// span is a range of a text.
type span struct{ from, to int }

func redactAll(text string, wanted []string) string {
	if text == "" || len(wanted) == 0 {
		return text
	}
	var found []span
	views(text, func(v view) {
		for _, w := range wanted {
			found = v.find(found, w)
		}
	})
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	end := 0
	for _, s := range found {
		if s.from < end { // it overlaps the part already redacted
			end = max(end, s.to)
			continue
		}
		b.WriteString(text[end:s.from])
		b.WriteString(redacted)
		end = s.to
	}
	b.WriteString(text[end:])
	return truncate(b.String())
}

// view is a text with decoded escapes.
type view struct {
	text    string
	offsets []int // positions of its bytes in the original text; nil: the same
	size    int   // length of the original text
}

// views passes the text to show as it is, and decoded by each kind of escaping that it may contain.
func views(text string, show func(view)) {
	show(view{text: text, size: len(text)})
	for _, e := range []struct {
		signs  string
		decode func(s string) (value string, size int)
	}{{`\`, decodeBackslash}, {"%", decodePercent}, {"%+", decodeForm}, {"&", decodeEntity}} {
		if strings.ContainsAny(text, e.signs) {
			show(decodeView(text, e.signs, e.decode))
		}
	}
}

// decodeView decodes a text. decode returns the value and the length of an escape at the start of
// s. The length is 0 if there is no escape, and negative if it is truncated.
func decodeView(text, signs string, decode func(s string) (value string, size int)) view {
	v := view{offsets: make([]int, 0, len(text)), size: len(text)}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		value, size := text[i:i+1], 1
		if strings.IndexByte(signs, text[i]) >= 0 {
			if s, n := decode(text[i:]); n < 0 {
				break // the text before it may be the start of a secret
			} else if n > 0 {
				value, size = s, n
			}
		}
		for range len(value) {
			v.offsets = append(v.offsets, i)
		}
		plain = append(plain, value...)
		i += size
	}
	v.text = string(plain)
	return v
}

// find appends the spans of a secret, and of its start at the end of the text.
func (v view) find(to []span, secret string) []span {
	for from := 0; ; {
		i := strings.Index(v.text[from:], secret)
		if i < 0 {
			break
		}
		to = append(to, span{v.offset(from + i), v.offset(from + i + len(secret))})
		from += i + len(secret)
	}
	for n := min(len(secret)-1, len(v.text)); n >= minSecretLen; n-- {
		if strings.HasSuffix(v.text, secret[:n]) {
			return append(to, span{v.offset(len(v.text) - n), v.size})
		}
	}
	return to
}

func (v view) offset(i int) int {
	switch {
	case i >= len(v.text):
		return v.size
	case v.offsets == nil:
		return i
	}
	return v.offsets[i]
}

// decodeBackslash decodes escapes of JSON and similar formats.
func decodeBackslash(s string) (string, int) {
	if len(s) < 2 { //nolint:mnd // "\n"
		return "", -1
	}
	switch c := s[1]; c {
	case '"', '\\', '/', '\'':
		return s[1:2], 2
	case 'u':
		r, n := hexRune(s, 4)
		if !utf16.IsSurrogate(r) {
			return string(r), n
		}
		low, m := hexRune(s[n:], 4)
		if m <= 0 {
			return string(r), cmp.Or(m, n)
		}
		return string(utf16.DecodeRune(r, low)), n + m
	case 'x':
		r, n := hexRune(s, 2)
		return string(r), n
	default:
		if i := strings.IndexByte("bfnrt", c); i >= 0 {
			return "\b\f\n\r\t"[i : i+1], 2
		}
		return "", 0
	}
}

// hexRune decodes the digits after "\u" or "\x", and returns the length of the whole escape.
func hexRune(s string, digits int) (rune, int) {
	if len(s) < digits+2 {
		return 0, -1
	}
	n, err := strconv.ParseUint(s[2:digits+2], 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(n), digits + 2
}

func decodePercent(s string) (string, int) {
	if len(s) < 3 { //nolint:mnd // "%2F"
		return "", -1
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(n)}), 3
}

// decodeForm decodes the escapes of form fields and queries.
func decodeForm(s string) (string, int) {
	if s[0] == '+' {
		return " ", 1
	}
	return decodePercent(s)
}

// decodeEntity decodes entities of HTML and XML.
func decodeEntity(s string) (string, int) {
	const longest = len("&#x10FFFF;")
	end := strings.IndexByte(s[:min(len(s), longest)], ';')
	if end < 0 {
		if len(s) < longest {
			return "", -1
		}
		return "", 0
	}
	if plain := html.UnescapeString(s[:end+1]); plain != s[:end+1] && utf8.ValidString(plain) {
		return plain, end + 1
	}
	return "", 0
}
