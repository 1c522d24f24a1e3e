package ui

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// formField is a field of the form, which shows a part of a document.
type formField struct {
	Name string
	path []string
	kind fieldKind
}

type fieldKind int

const (
	fieldText  fieldKind = iota // one scalar
	fieldInt                    // a number
	fieldLines                  // a sequence, a line for each
	fieldList                   // a sequence, separated by commas
	fieldPairs                  // a mapping, name=value on each line
)

// formFields are the fields that most timers have. The YAML has all others.
var formFields = []formField{
	{"name", []string{"name"}, fieldText},
	{"status", []string{"status"}, fieldText},
	{"kind", []string{"schedule", "kind"}, fieldText},
	{"specs", []string{"schedule", "specs"}, fieldLines},
	{"time_zone", []string{"schedule", "time_zone"}, fieldText},
	{"every", []string{"schedule", "every"}, fieldText},
	{"at", []string{"schedule", "at"}, fieldText},
	{"delay", []string{"schedule", "delay"}, fieldText},
	{"calendars", []string{"schedule", "calendars"}, fieldList},
	{"method", []string{"target", "method"}, fieldText},
	{"url", []string{"target", "url"}, fieldText},
	{"body", []string{"target", "body"}, fieldText},
	{"attempts", []string{"retry", "attempts"}, fieldInt},
	{"timeout", []string{"retry", "timeout"}, fieldText},
	{"misfire", []string{"misfire", "policy"}, fieldText},
	{"concurrency", []string{"concurrency", "policy"}, fieldText},
	{"priority", []string{"priority"}, fieldText},
	{"labels", []string{"labels"}, fieldPairs},
}

// scheduleFields are the fields of a schedule that belong to some kinds only. The form has some of
// them. The API refuses one of another kind; a time zone it takes of each kind, but the form has it
// for cron alone.
var scheduleFields = map[string][]string{
	"specs":     {"cron"},
	"time_zone": {"cron"},
	"gap":       {"cron"},
	"overlap":   {"cron"},
	"every":     {"interval", "fixed_delay"},
	"anchor":    {"interval"},
	"phase":     {"interval"},
	"at":        {"at"},
	"delay":     {"delay"},
	"start_at":  {"cron", "interval", "fixed_delay"},
	"end_at":    {"cron", "interval", "fixed_delay"},
	"max_fires": {"cron", "interval", "fixed_delay"},
}

// belongs reports whether a field of the form says something about a schedule of a kind.
func (f formField) belongs(kind string) bool {
	kinds, some := scheduleFields[f.Name]
	return !some || slices.Contains(kinds, kind)
}

// form returns the values of a document's fields as the form shows them.
func (d *document) form() map[string]string {
	form := make(map[string]string, len(formFields))
	for _, f := range formFields {
		switch f.kind {
		case fieldText, fieldInt:
			form[f.Name] = d.text(f.path...)
		case fieldLines:
			form[f.Name] = strings.Join(d.list(f.path...), "\n")
		case fieldList:
			form[f.Name] = strings.Join(d.list(f.path...), ", ")
		case fieldPairs:
			var lines []string
			for _, p := range d.pairs(f.path...) {
				lines = append(lines, p.String())
			}
			form[f.Name] = strings.Join(lines, "\n")
		}
	}
	return form
}

// shown returns what a browser sends for a field that shows a text, and that nobody has changed.
func shown(text string) string {
	return lines(strings.ReplaceAll(text, "\x00", "\ufffd")) // HTML has no NUL
}

// lines returns a text with the ends of lines that YAML has. Browsers send others.
func lines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// change sets a field to what the form says; nothing removes it.
func (d *document) change(f formField, value string) {
	if value == "" {
		d.remove(f.path...)
		return
	}
	switch f.kind {
	case fieldText:
		d.set(yamltext.Text(value), f.path...)
	case fieldInt:
		n := yamltext.Text(value)
		if i, err := strconv.Atoi(value); err == nil { // its digits may be an octal number
			n = &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.Itoa(i)}
		}
		d.set(n, f.path...)
	case fieldLines, fieldList:
		separator := "\n"
		if f.kind == fieldList {
			separator = ","
		}
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for item := range strings.SplitSeq(value, separator) {
			if item = strings.TrimSpace(item); item != "" {
				list.Content = append(list.Content, yamltext.Text(item))
			}
		}
		d.set(list, f.path...)
	case fieldPairs:
		pairs := &yaml.Node{Kind: yaml.MappingNode}
		for _, p := range d.readPairs(value, f.path...) {
			pairs.Content = append(pairs.Content, yamltext.Text(p.name), yamltext.Text(p.value))
		}
		d.set(pairs, f.path...)
	}
}

// fieldErrors are what is wrong with a field of the form.
type fieldErrors struct {
	Name   string
	Errors []string
}

// errorsOf returns the errors by the field of the form to which they belong, and the others.
func errorsOf(e *apiError) (byField map[string][]string, others []fieldError) {
	byField = make(map[string][]string)
	if e == nil {
		return byField, nil
	}
	for _, x := range e.Errors {
		if name := fieldOf(strings.TrimPrefix(x.Location, "body.")); name != "" {
			byField[name] = append(byField[name], x.Message)
		}
	}
	for _, x := range e.More() {
		if fieldOf(x.Location) == "" {
			others = append(others, x)
		}
	}
	return byField, others
}

// fieldOf returns the field of the form that has a place in a document.
func fieldOf(location string) string {
	for _, f := range formFields {
		rest, ok := strings.CutPrefix(location, strings.Join(f.path, "."))
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return f.Name
		}
	}
	return ""
}
