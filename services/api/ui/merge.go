package ui

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// apart is a field of the form that cannot be joined with the YAML.
type apart struct {
	Field string
	Text  string // why, as a key of texts
}

// merge applies to a document, which is the YAML side of the editor, what the form side has changed
// since both were made of base. Fields that the form cannot show stay as they are. It returns the
// fields that both sides have changed, and differently; the document is of no use then, because a
// choice between them would lose what somebody typed.
//
// Without scripts, a browser also sends the fields of other kinds of schedules than the chosen one,
// which it does not show: they say nothing.
func (d *document) merge(form url.Values, base *document) (refused []apart) {
	was, has := base.form(), d.form()
	for _, f := range formFields {
		now := lines(form.Get(f.Name))
		switch {
		case !form.Has(f.Name), !f.belongs(form.Get("kind")), f.same(now, shown(was[f.Name])):
			continue
		case f.kind == fieldPairs && twice(d.readPairs(now, f.path...)):
			refused = append(refused, apart{f.Name, "label_twice"})
			continue
		case f.same(now, shown(has[f.Name])): // both sides say so
		case d.differs(base, f.path...):
			refused = append(refused, apart{f.Name, "sides_apart_here"})
			continue
		default:
			d.change(f, withEndsOf(was[f.Name], f.trim(now)))
		}
		if f.Name == "kind" && !d.removeOtherKinds(base, now) {
			refused = append(refused, apart{f.Name, "sides_apart_here"})
		}
	}
	return refused
}

// removeOtherKinds removes the fields that belong to other kinds of schedules. It returns false if
// the YAML side has changed one of them.
func (d *document) removeOtherKinds(base *document, kind string) bool {
	for name, kinds := range scheduleFields {
		if slices.Contains(kinds, kind) || d.find("schedule", name) == nil {
			continue
		}
		if d.differs(base, "schedule", name) {
			return false
		}
		d.remove("schedule", name)
	}
	return true
}

// differs reports whether the value at a path is another one than in base, or what holds it is no
// mapping any more.
func (d *document) differs(base *document, path ...string) bool {
	for i := range path[1:] {
		in := valueOf(d.find(path[:i+1]...))
		if _, mapping := in.(map[string]any); in != nil && !mapping {
			return true
		}
	}
	return !reflect.DeepEqual(valueOf(d.find(path...)), valueOf(base.find(path...)))
}

// valueOf returns what a node holds, without its comments; nil for none.
func valueOf(n *yaml.Node) (v any) {
	if n != nil {
		_ = n.Decode(&v) // the API says what is wrong with it
	}
	return v
}

// same reports whether two texts of the field mean the same.
func (f formField) same(a, b string) bool {
	return a == b || f.meaning(a) == f.meaning(b)
}

// meaning returns a text of the field as the form shows it once the YAML has it.
func (f formField) meaning(text string) string {
	d := &document{&yaml.Node{Kind: yaml.MappingNode}}
	d.change(f, f.trim(text))
	return d.form()[f.Name]
}

// withEndsOf returns a text of the form with the ends of lines that the text had before, if all of them
// were CRLF. A browser does not tell which it had.
func withEndsOf(was, now string) string {
	if n := strings.Count(was, "\r\n"); n == 0 || n != strings.Count(was, "\n") ||
		n != strings.Count(was, "\r") {
		return now
	}
	return strings.ReplaceAll(now, "\n", "\r\n")
}

// trim removes the space around a text. That of a body is a part of it.
func (f formField) trim(text string) string {
	if f.Name == "body" {
		return text
	}
	return strings.TrimSpace(text)
}

// twice reports whether a name stands twice.
func twice(pairs []pair) bool {
	seen := make(map[string]bool)
	for _, p := range pairs {
		if seen[p.name] {
			return true
		}
		seen[p.name] = true
	}
	return false
}
