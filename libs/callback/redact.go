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

// minSecretLen is how long a secret is at least that is blotted out: shorter ones would tear ordinary
// words apart.
const minSecretLen = 6

// redactResult takes secrets out of what is recorded, the request's completion token among them: a receiver
// may send back what it got, whole, without its scheme ("Bearer …"), escaped as its answer's form
// asks for, in base64, or cut off by the end of the excerpt.
func redactResult(r Result, q *Request, secrets []secretHeader) Result {
	if r.Excerpt == "" && r.Error == "" || len(secrets) == 0 && q.Token == "" {
		return r
	}
	wanted := secretForms(nil, q.Token)
	for _, s := range secrets {
		wanted = secretForms(wanted, s.value)
		scheme, credentials, ok := strings.Cut(s.value, " ")
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
	return r
}

func redactText(text, secret string) string { return redactAll(text, secretForms(nil, secret)) }

// secretForms adds to a list what a secret is looked for as: itself, and its base64. That of a longer
// text which it is a part of is one of three, by where it begins there; of a digit that it shares
// with what stands beside it some bits are left.
func secretForms(to []string, secret string) []string {
	if len(secret) < minSecretLen {
		return to
	}
	to = append(to, secret)
	for before := range 3 {
		padded := "\x00\x00"[:before] + secret
		// where nothing follows it.
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

// span is a part of a text.
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
	offsets := 0
	for _, s := range found {
		if s.from < offsets { // a part of it is blotted out already
			offsets = max(offsets, s.to)
			continue
		}
		b.WriteString(text[offsets:s.from])
		b.WriteString(redacted)
		offsets = s.to
	}
	b.WriteString(text[offsets:])
	return truncate(b.String())
}

// view is a text with its escapes taken for what they stand for.
type view struct {
	text    string
	offsets []int // where its bytes stand in what was escaped; nil: in the same places
	size    int   // of what was escaped
}

// views shows a text as it is, and by every way of escaping of which it has signs.
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

// decodeView decodes a text. decode returns what an escape at the start of s stands for, and its length
// there: 0 where it is none, less than 0 where it is cut off.
func decodeView(text, signs string, decode func(s string) (value string, size int)) view {
	v := view{offsets: make([]int, 0, len(text)), size: len(text)}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		value, size := text[i:i+1], 1
		if strings.IndexByte(signs, text[i]) >= 0 {
			if s, n := decode(text[i:]); n < 0 {
				break // what stands before it may be the start of a secret
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

// find adds the places of a secret, and of its start at the end of the text.
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

// decodeBackslash reads the escapes of JSON, and of what is like it.
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

// hexRune reads the digits behind "\u" or "\x", and returns how long it is with them.
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

// decodeForm reads what a form's fields and a query are written in.
func decodeForm(s string) (string, int) {
	if s[0] == '+' {
		return " ", 1
	}
	return decodePercent(s)
}

// decodeEntity reads those of HTML and XML.
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
