package yamltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	tagText = "!!str"
	tagNull = "!!null"
	tagJoin = "!!merge"
)

// notText are the plain scalars that a reader may take for another value than a text.
var notText = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`|~|=|<<`,
	`(?i:y|n|yes|no|on|off|true|false|null)`,
	`(?i:[-+]?\.inf|\.nan)`,
	`[-+]?\.?[0-9][0-9a-fA-FoOxX_.,:]*(?:[eE][-+][0-9]+)?`, // also hours and minutes
	`[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?`,         // a date or an instant
}, `|`) + `)$`)

// Text returns a scalar that every reader takes for this text.
func Text(value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: tagText, Value: value}
	switch {
	case strings.Contains(value, "\n") && fitsBlock(value):
		n.Style = yaml.LiteralStyle
	case notText.MatchString(value) || strings.ContainsFunc(value, escaped) ||
		strings.ContainsAny(value, "\n\t"):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// key returns a text as the key of a mapping, which takes one line.
func key(name string) *yaml.Node {
	n := Text(name)
	if n.Style == yaml.LiteralStyle {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// escaped reports whether readers refuse a character, take it for the end of a line or leave it out.
func escaped(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r <= 0x9f:
		return true
	}
	return r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

// fitsBlock reports whether a text of several lines comes back from a block as it was.
func fitsBlock(text string) bool {
	return !strings.ContainsFunc(text, escaped) &&
		!strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "\t") &&
		!strings.HasPrefix(text, "\n") && !strings.HasSuffix(text, "\n\n") &&
		!strings.Contains(text, " \n") && !strings.Contains(text, "\t\n") &&
		!strings.HasSuffix(text, " ") && !strings.HasSuffix(text, "\t")
}

// FromJSON returns a JSON value as YAML, with the order of its fields and the digits of its numbers.
func FromJSON(text []byte) (*yaml.Node, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := read(d)
	if err == nil {
		if _, after := d.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("expected one JSON value, found more")
		}
	}
	return n, err
}

func read(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the place
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return readObject(d)
		}
		return readArray(d)
	case string:
		return Text(v), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	default:
		if v == nil {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: tagNull, Value: "null"}, nil
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v)}, nil
	}
}

func readObject(d *json.Decoder) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the place
		}
		name, _ := token.(string) // the decoder refuses other names
		value, err := read(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, key(name), value)
	}
	_, err := d.Token()
	return n, err //nolint:wrapcheck // it names the place
}

func readArray(d *json.Decoder) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for d.More() {
		value, err := read(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, value)
	}
	_, err := d.Token()
	return n, err //nolint:wrapcheck // it names the place
}

// Marshal returns a value as YAML, as its JSON is.
func Marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("yaml: %w", err)
	}
	n, err := FromJSON(text)
	if err != nil {
		return nil, fmt.Errorf("yaml: %w", err)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	e.CompactSeqIndent()
	err = e.Encode(n)
	if err = errors.Join(err, e.Close()); err != nil {
		return nil, fmt.Errorf("yaml: %w", err)
	}
	return out.Bytes(), nil
}

// EscapeJSON escapes the characters of a JSON text that readers of YAML do not take as they are.
func EscapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, escapedInJSON) {
		return text
	}
	out := make([]byte, 0, len(text)+len(`\u0000`))
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if escapedInJSON(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

// escapedInJSON leaves out the ends of lines between values, and all that JSON escapes itself.
func escapedInJSON(r rune) bool { return r >= ' ' && escaped(r) }

// QuoteKeys returns a YAML document whose keys are read as they are written: in YAML 1.1, y without
// quotes is the key true. A text that it cannot read it returns as it is.
func QuoteKeys(text []byte) []byte {
	n, err := Decode(text)
	if err != nil || !quoteKeys(n) {
		return text
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	if err := errors.Join(e.Encode(n), e.Close()); err != nil {
		return text
	}
	return out.Bytes()
}

// quoteKeys reports whether it has changed a key.
func quoteKeys(n *yaml.Node) (changed bool) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode && c.Style == 0 &&
			c.Tag != tagNull && c.Tag != tagJoin && notText.MatchString(c.Value) {
			c.Style, c.Tag, changed = yaml.DoubleQuotedStyle, tagText, true
		}
		changed = quoteKeys(c) || changed
	}
	return changed
}
