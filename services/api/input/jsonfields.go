package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// fieldError is an error about a field of a body. huma keeps nothing but its text, so the text has
// the location: see CutLocation.
type fieldError struct{ location, msg string }

func (e *fieldError) Error() string { return strconv.Quote(e.location) + " " + e.msg }

// CutLocation returns the location and the message of a field's error, from its text.
func CutLocation(text string) (location, msg string, ok bool) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil || quoted[0] != '"' {
		return "", text, false
	}
	location, err = strconv.Unquote(quoted)
	return location, strings.TrimPrefix(text[len(quoted):], " "), err == nil
}

// refuseRepeated refuses valid JSON in which an object has a name twice. encoding/json merges the
// two values, or takes the second one. decoded is the JSON as maps, in which equal names are one, so
// it has fewer members if and only if a name is repeated.
func refuseRepeated(data []byte, decoded any) error {
	if membersOf(data) == membersIn(decoded) {
		return nil
	}
	return &fieldError{
		location: locate(data, func(repeated bool, _ int64) bool { return repeated }),
		msg:      "expected each field once, found it twice: leave one of the two out",
	}
}

// membersOf counts the members of all objects in valid JSON: each has a colon outside of texts.
func membersOf(data []byte) (n int) {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case ':':
			n++
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}

// membersIn counts the members of all objects in a decoded value.
func membersIn(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, one := range v {
			n += membersIn(one)
		}
	case []any:
		for _, one := range v {
			n += membersIn(one)
		}
	}
	return n
}

// explainType says which field has a value of a wrong type. The text of encoding/json names types of
// Go. The description is checked before, so the usual case is a whole number such as 2.0 or 1e1,
// which it allows.
func explainType(data []byte, err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	found, number := strings.CutPrefix(wrong.Value, "number ")
	msg := "expected another type, found " + Clip(wrong.Value)
	if kind := wrong.Type.Kind(); number && kind >= reflect.Int && kind <= reflect.Uint64 {
		msg = "expected a whole number in digits alone, found " + Clip(found)
	} else if number {
		msg = "expected a number that 64 bits can hold, found " + Clip(found)
	}
	// encoding/json gives the end of the value, or the byte after it.
	return &fieldError{
		location: locate(data, func(_ bool, end int64) bool { return end >= wrong.Offset-1 }),
		msg:      msg,
	}
}

// place is an object or a list that is being read.
type place struct {
	names map[string]bool // of an object so far; nil: a list
	name  string          // of the present member
	value bool            // whether its value comes next
	item  int             // present item of a list
}

// locate returns the location of the first name or value of JSON for which found is true. found
// gets whether a name is repeated in its object, and where the name or the value ends.
func locate(data []byte, found func(repeated bool, end int64) bool) string {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []*place
	for {
		token, err := dec.Token()
		if err != nil {
			return location(open)
		}
		delim, _ := token.(json.Delim)
		if delim == '}' || delim == ']' {
			open = open[:len(open)-1]
			continue
		}
		repeated := false
		if len(open) > 0 {
			repeated = open[len(open)-1].advance(token)
		}
		if found(repeated, dec.InputOffset()) {
			return location(open)
		}
		switch delim {
		case '{':
			open = append(open, &place{names: map[string]bool{}})
		case '[':
			open = append(open, &place{item: -1})
		}
	}
}

// advance goes on to the next name or value, and reports whether it is a name for the second time.
func (p *place) advance(token json.Token) (repeated bool) {
	switch {
	case p.names == nil:
		p.item++
	case p.value:
		p.value = false
	default:
		p.name, _ = token.(string)
		repeated = p.names[p.name]
		p.names[p.name], p.value = true, true
	}
	return repeated
}

func location(open []*place) string {
	var b strings.Builder
	b.WriteString("body")
	for _, p := range open {
		if p.names == nil {
			fmt.Fprintf(&b, "[%d]", p.item)
		} else {
			b.WriteString("." + Clip(p.name))
		}
	}
	return b.String()
}
