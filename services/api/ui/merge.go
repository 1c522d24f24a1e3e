package ui

import (
	"maps"
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
// choice between them would lose what somebody typed. opened is the definition as the viewer opened it:
// see restore.
//
// Without scripts, a browser also sends the fields of other kinds of schedules than the chosen one,
// which it does not show: they say nothing.
func (d *document) merge(form url.Values, base, opened *document) (refused []apart) {
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
			d.changeDependent(f.Name, base)
		}
		if f.Name == "kind" && !d.removeOtherKinds(base, now) {
			refused = append(refused, apart{f.Name, "sides_apart_here"})
			continue
		}
		d.restore(f.Name, now, opened)
	}
	return refused
}

// dependents are the fields that the API takes only with some values of a field of the form. It shows
// their defaults, so the form, which does not have them, would be refused.
var dependents = map[string][]string{
	"misfire":     {"misfire", "max_fires"},
	"concurrency": {"concurrency", "max_queue"},
	"calendars":   {"schedule", "excluded"},
}

// changeDependent removes what depends on a field of the form that has changed, unless the YAML side
// has changed it. Calendars may be others: only without any does nothing depend on them.
func (d *document) changeDependent(name string, base *document) {
	path, has := dependents[name]
	if !has || d.differs(base, path...) || name == "calendars" && d.find("schedule", name) != nil {
		return
	}
	d.remove(path...)
}

// restore puts back what went with another choice of a field of the form, where the viewer has come
// back to that with which the definition was opened: fields that the form does not have.
func (d *document) restore(name, choice string, opened *document) {
	if opened.form()[name] != choice {
		return
	}
	back := func(path ...string) {
		if n := opened.find(path...); n != nil && d.find(path...) == nil {
			d.set(n, path...)
		}
	}
	switch name {
	case "misfire", "concurrency":
		back(dependents[name]...)
	case "kind":
		for _, of := range slices.Sorted(maps.Keys(scheduleFields)) {
			if slices.Contains(scheduleFields[of], choice) && fieldOf("schedule."+of) == "" {
				back("schedule", of)
			}
		}
	}
}

// asOpened returns the part of a document that restore reads.
func (d *document) asOpened() *document {
	part := &document{&yaml.Node{Kind: yaml.MappingNode}}
	for _, name := range []string{"schedule", "misfire", "concurrency"} {
		if n := d.find(name); n != nil {
			part.set(n, name)
		}
	}
	return part
}

// removeOtherKinds removes the fields that belong to other kinds of schedules, but for a time zone: in
// it the days of calendars begin. It returns false if the YAML side has changed one of them.
func (d *document) removeOtherKinds(base *document, kind string) bool {
	for name, kinds := range scheduleFields {
		if slices.Contains(kinds, kind) || name == "time_zone" || d.find("schedule", name) == nil {
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
