package callback

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/timer"
)

// readBuffers are what answers are read into; nothing keeps one.
var readBuffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// readExcerpt returns the start of an answer's body, and reads on to its end or to the bound, so
// that the connection can be used again. An answer that breaks off is as good as its start.
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

// readBody returns the first bytes of a body, and the error that it broke off with; that it is
// longer is none.
func readBody(body io.Reader, bound int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(body, bound))
}

// truncate makes s valid UTF-8 of at most timer.MaxExcerpt bytes.
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

// oneLine makes an error's text one line of at most timer.MaxExcerpt bytes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	return truncate(s)
}
