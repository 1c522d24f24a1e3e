package schedule

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// scanner reads a spec byte by byte up to end, so that a field never reads the next.
type scanner struct {
	text     string
	pos, end int
}

// word is a range of the text without white space.
type word struct{ from, to int }

func (s *scanner) words() []word {
	var out []word
	from := -1
	for i := range len(s.text) {
		switch blank := isBlank(s.text[i]); {
		case blank && from >= 0:
			out = append(out, word{from, i})
			from = -1
		case !blank && from < 0:
			from = i
		}
	}
	if from >= 0 {
		out = append(out, word{from, len(s.text)})
	}
	s.pos, s.end = len(s.text), len(s.text)
	return out
}

func isBlank(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func (s *scanner) done() bool { return s.pos >= s.end }

// peek returns the next byte in upper case, or 0 at the end of the field.
func (s *scanner) peek() byte {
	if s.done() {
		return 0
	}
	b := s.text[s.pos]
	if b >= 'a' && b <= 'z' {
		b -= 'a' - 'A'
	}
	return b
}

// accept skips the next byte if it is b.
func (s *scanner) accept(b byte) bool {
	if s.peek() != b {
		return false
	}
	s.pos++
	return true
}

// number reads digits. A number too large for any field is returned as a too large value.
func (s *scanner) number() (n int, ok bool) {
	const large = 1_000_000
	for ; s.peek() >= '0' && s.peek() <= '9'; s.pos++ {
		n = min(n*10+int(s.text[s.pos]-'0'), large)
		ok = true
	}
	return n, ok
}

// letters returns the following letters without skipping them.
func (s *scanner) letters() string {
	i := s.pos
	for i < s.end && (s.text[i]|0x20 >= 'a' && s.text[i]|0x20 <= 'z') {
		i++
	}
	return s.text[s.pos:i]
}

// fail returns the error that something else was expected here.
func (s *scanner) fail(expected string) error { return s.failAt(s.pos, expected) }

func (s *scanner) failAt(at int, expected string) error {
	const shown = 20
	found := "the end of the field"
	switch {
	case at >= len(s.text):
		found = "the end"
	case at < s.end:
		rest := s.text[at:s.end]
		if len(rest) > shown {
			for rest = rest[:shown]; len(rest) > 0 && !utf8.ValidString(rest); {
				rest = rest[:len(rest)-1]
			}
			found = strconv.Quote(rest) + "…"
		} else {
			found = strconv.Quote(rest)
		}
	}
	return &syntaxError{at: at, expected: expected, found: found}
}

func fromTo(low, high int) string { return fmt.Sprintf("from %d to %d", low, high) }
