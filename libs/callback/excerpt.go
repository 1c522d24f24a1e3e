package callback

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/timer"
)

// readBuffers are buffers for reading answers; no reference to one is kept.
var readBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// readExcerpt returns the start of an answer's body. It reads on to the end or to bound, so that
// the connection can be reused. If the body breaks off, its start is the excerpt.
func readExcerpt(body io.Reader, bound int64) string {
	buf := readBuffers.Get().(*[4 << 10]byte) //nolint:forcetypeassert // New makes no other
	defer readBuffers.Put(buf)
	n, err := io.ReadFull(body, buf[:])
	excerpt := truncate(string(buf[:min(n, timer.MaxExcerpt+utf8.UTFMax)]))
	for left := bound - int64(n); err == nil && left > 0; left -= int64(n) {
		n, err = body.Read(buf[:min(left, int64(len(buf)))])
	}
	return excerpt
}

// readBody returns at most bound bytes of a body, and the error with which it broke off. A longer
// body is not an error.
func readBody(body io.Reader, bound int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(body, bound))
}

// truncate returns s as valid UTF-8 of at most timer.MaxExcerpt bytes.
func truncate(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= timer.MaxExcerpt {
		return s
	}
	end := timer.MaxExcerpt
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// oneLine returns s as one line of at most timer.MaxExcerpt bytes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	return truncate(s)
}
