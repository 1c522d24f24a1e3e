package selector

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Parse reads a selector. Its errors say what was expected, what was found, and where.
func Parse(text string) (Selector, error) {
	if len(text) > MaxLen {
		return nil, fmt.Errorf("expected at most %d bytes, found %d", MaxLen, len(text))
	}
	p := &parser{text: text}
	if err := p.next(); err != nil {
		return nil, err
	}
	var s Selector
	for p.kind != end {
		if len(s) == MaxRequirements {
			return nil, fmt.Errorf("expected at most %d requirements, found more", MaxRequirements)
		}
		r, err := p.requirement()
		if err != nil {
			return nil, err
		}
		s = append(s, r)
		if p.kind == end {
			break
		}
		if p.kind != comma {
			return nil, p.expected("a comma or the end")
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		if p.kind == end {
			return nil, p.expected("a label after the comma")
		}
	}
	return normalize(s), nil
}

// token is a kind of token.
type token uint8

const (
	end token = iota
	word
	quotedWord // never in or notin
	comma
	open
	closed
	not
	equal
	notEqual
)

// isSpecial reports whether a character ends a word that is not quoted.
func isSpecial(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`=!(),"<>`, r)
}

// parser reads tokens one by one. The present one is kind, with the text of a word.
type parser struct {
	text string
	at   int // where the next token begins

	kind  token
	word  string
	begin int // where the present token begins
}

// next reads the next token.
func (p *parser) next() error {
	p.at += len(p.text[p.at:]) - len(strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace))
	p.begin, p.word = p.at, ""
	rest := p.text[p.at:]
	for _, s := range []struct {
		text string
		kind token
	}{{"==", equal}, {"!=", notEqual}, {"=", equal}, {"!", not}, {",", comma}, {"(", open}, {")", closed}} {
		if strings.HasPrefix(rest, s.text) {
			p.kind = s.kind
			p.at += len(s.text)
			return nil
		}
	}
	switch {
	case rest == "":
		p.kind = end
		return nil
	case rest[0] == '"':
		q, err := strconv.QuotedPrefix(rest)
		if err == nil {
			p.kind = quotedWord
			p.at += len(q)
			p.word, err = strconv.Unquote(q)
		}
		if err != nil {
			return fmt.Errorf(`expected text that ends with ", found none after %s`, p.place())
		}
	case rest[0] == '<' || rest[0] == '>':
		return fmt.Errorf(
			"expected =, !=, in or notin, found %q after %s: quote it if it is part of a value",
			rest[:1], p.place(),
		)
	default:
		n := strings.IndexFunc(rest, isSpecial)
		if n < 0 {
			n = len(rest)
		}
		p.kind, p.word = word, rest[:n]
		p.at += n
	}
	if len(p.word) > timer.MaxLabelLen || !utf8.ValidString(p.word) {
		return fmt.Errorf(
			"expected at most %d bytes of UTF-8 for a name or value, found other text after %s",
			timer.MaxLabelLen, p.place(),
		)
	}
	return nil
}

func (p *parser) isWord() bool { return p.kind == word || p.kind == quotedWord }

// requirement reads a requirement up to the token behind it.
func (p *parser) requirement() (r Requirement, err error) {
	if p.kind == not {
		r.Operator = NotExists
		if err := p.next(); err != nil {
			return r, err
		}
	}
	if !p.isWord() || p.word == "" {
		return r, p.expected("the name of a label")
	}
	r.Name = p.word
	if err := p.next(); err != nil || r.Operator == NotExists {
		return r, err
	}
	switch {
	case p.kind == equal:
		r.Operator = In
		return r, p.value(&r)
	case p.kind == notEqual:
		r.Operator = NotIn
		return r, p.value(&r)
	case p.kind == word && (p.word == string(In) || p.word == string(NotIn)):
		r.Operator = Operator(p.word)
		return r, p.values(&r)
	default:
		r.Operator = Exists
		return r, nil
	}
}

// value reads the value after = or !=. A missing one is empty.
func (p *parser) value(r *Requirement) error {
	err := p.next()
	r.Values = []string{p.word}
	if err != nil || !p.isWord() {
		return err
	}
	return p.next()
}

// values reads the list after in or notin. As in Kubernetes, nothing between two commas is the
// empty value.
func (p *parser) values(r *Requirement) error {
	if err := p.next(); err != nil {
		return err
	}
	if p.kind != open {
		return p.expected("( after " + string(r.Operator))
	}
	for {
		if len(r.Values) == MaxValues {
			return fmt.Errorf("expected at most %d values of %q, found more", MaxValues, r.Name)
		}
		if err := p.next(); err != nil {
			return err
		}
		r.Values = append(r.Values, p.word)
		if p.isWord() {
			if err := p.next(); err != nil {
				return err
			}
		}
		if p.kind == closed {
			return p.next()
		}
		if p.kind != comma {
			return p.expected("a comma or )")
		}
	}
}

// expected returns the error about the present token.
func (p *parser) expected(what string) error {
	found := strconv.Quote(p.text[p.begin:p.at])
	if p.kind == end {
		found = "the end"
	}
	return fmt.Errorf("expected %s, found %s after %s", what, found, p.place())
}

// place returns the text before the present token, or its end.
func (p *parser) place() string {
	const shown = 40
	before := strings.ToValidUTF8(p.text[max(0, p.begin-shown):p.begin], "")
	return strconv.Quote(before)
}
