// Package manifest reads and writes the definitions of timers and calendars as files: YAML
// documents, JSON objects or NDJSON.
package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// Kind is the kind of a definition.
type Kind string

// The kinds. A document without the field kind is a timer.
const (
	Timer    Kind = "timer"
	Calendar Kind = "calendar"
)

// Manifest is one definition: the body of a request, and what it is for.
type Manifest struct {
	Kind   Kind
	App    string // empty in a document for any app
	Name   string
	Body   client.Object // without kind; of a calendar also without app and name
	Source string        // file and place, for errors
}

// Of returns the definition in an answer of the API, without what only the service sets. The
// status of a paused timer is left out, because a definition cannot pause.
func Of(kind Kind, answer client.Object) Manifest {
	m := Manifest{Kind: kind, App: answer.Text("app"), Name: answer.Text("name")}
	m.Body = maps.Clone(answer)
	leaveShownOut(m.Body)
	if kind == Calendar {
		delete(m.Body, "app")
		delete(m.Body, "name")
	}
	return m
}

// leaveShownOut removes what only the service sets from an answer of the API, and a status that no
// definition has: that of a paused or deleted timer.
func leaveShownOut(body client.Object) {
	shown := false
	for _, name := range definition.ShownOnly() {
		if _, has := body[name]; has {
			delete(body, name)
			shown = true
		}
	}
	if s := body.Text("status"); shown && s != "active" && s != "inactive" {
		delete(body, "status")
	}
}

// document returns the manifest as one document.
func (m *Manifest) document() map[string]any {
	doc := map[string]any{"kind": string(m.Kind), "name": m.Name}
	if m.App != "" {
		doc["app"] = m.App
	}
	maps.Copy(doc, m.Body)
	return doc
}

// YAML returns the manifest as a YAML document.
func (m *Manifest) YAML() ([]byte, error) {
	data, err := yamltext.Marshal(m.document())
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", m.Name, err)
	}
	return data, nil
}

// JSON returns the manifest as one line of JSON.
func (m *Manifest) JSON() ([]byte, error) {
	data, err := json.Marshal(m.document())
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", m.Name, err)
	}
	return append(yamltext.EscapeJSON(data), '\n'), nil
}

// Diff returns the difference of two definitions as a unified diff; nil is no definition. It is
// empty if they are the same.
func Diff(was, now *Manifest) (string, error) {
	text := func(m *Manifest) (string, error) {
		if m == nil {
			return "", nil
		}
		data, err := m.YAML()
		return string(data), err
	}
	a, err := text(was)
	if err != nil {
		return "", err
	}
	b, err := text(now)
	if err != nil {
		return "", err
	}
	of := now
	if of == nil {
		of = was
	}
	label := string(of.Kind) + " " + of.App + "/" + of.Name
	return udiff.Unified(label, label, a, b), nil
}

// Parse reads all documents of a file. App is the app of documents that name none.
func Parse(data []byte, source, app string) ([]Manifest, error) {
	var all []Manifest
	var problems []error
	for i, text := range yamltext.Split(data, "") {
		place := fmt.Sprintf("%s, document %d", source, i+1)
		m, err := parse(text, place, app)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		all = append(all, m)
	}
	return all, errors.Join(problems...)
}

func parse(text []byte, source, app string) (Manifest, error) {
	m := Manifest{Kind: Timer, Source: source}
	data, err := definition.DocumentJSON(text)
	if err != nil {
		return m, fmt.Errorf("%s: %w", source, err)
	}
	if m.Body, err = client.Decode(data); err != nil {
		return m, fmt.Errorf("%s: expected an object with app, name, schedule and target", source)
	}
	for _, field := range []string{"kind", "app", "name"} {
		// YAML reads 0123 as 83, and "on" as true: they would be of another app or calendar.
		if v, has := m.Body[field]; has && v != nil {
			if _, text := v.(string); !text {
				return m, fmt.Errorf("%s: %s: expected a text, found %s: quote it",
					source, field, m.Body.Text(field))
			}
		}
	}
	if kind := m.Body.Text("kind"); kind != "" {
		m.Kind = Kind(strings.ToLower(kind))
	}
	if m.Kind != Timer && m.Kind != Calendar {
		return m, fmt.Errorf("%s: kind: expected timer or calendar, found %q", source, m.Kind)
	}
	delete(m.Body, "kind")
	leaveShownOut(m.Body) // of what get has printed
	if m.Kind == Timer && m.Body["schedule"] == nil && hasDates(m.Body) {
		return m, fmt.Errorf(
			"%s: expected a timer, found the dates of a calendar: add kind: calendar",
			source,
		)
	}
	if m.App, m.Name = m.Body.Text("app"), m.Body.Text("name"); m.App == "" {
		m.App = app
	}
	if m.App == "" || m.Name == "" {
		return m, fmt.Errorf("%s: expected app and name, found no %s: give it in the document%s",
			source, missing(m.App), map[bool]string{true: ", or --app"}[m.App == ""])
	}
	m.Body["app"] = m.App
	if m.Kind == Calendar {
		delete(m.Body, "app")
		delete(m.Body, "name")
	}
	return m, nil
}

// hasDates reports whether a document has a field that only calendars have.
func hasDates(body client.Object) bool {
	return slices.ContainsFunc(
		[]string{"excluded_dates", "included_dates", "excluded_weekdays"},
		func(field string) bool { _, has := body[field]; return has },
	)
}

func missing(app string) string {
	if app == "" {
		return "app"
	}
	return "name"
}

// Read reads files, and all .yaml, .yml, .json and .ndjson files below folders, in the order of
// their names, without folders below them whose names begin with a dot. "-" is in. Calendars come
// first, because timers name them.
func Read(paths []string, in io.Reader, app string) ([]Manifest, error) {
	var all []Manifest
	var problems []error
	add := func(data []byte, source string, err error) {
		if err == nil {
			var found []Manifest
			found, err = Parse(data, source, app)
			all = append(all, found...)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(in)
			add(data, "standard input", err)
			continue
		}
		files, err := files(path)
		if err != nil {
			problems = append(problems, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			add(data, file, err)
		}
	}
	problems = append(problems, twice(all)...)
	slices.SortStableFunc(all, func(a, b Manifest) int { return order(a.Kind) - order(b.Kind) })
	return all, errors.Join(problems...)
}

func order(k Kind) int {
	if k == Calendar {
		return 0
	}
	return 1
}

// twice returns an error for each definition that is there more than once.
func twice(all []Manifest) []error {
	seen := make(map[[3]string]string)
	var problems []error
	for i := range all {
		m := &all[i]
		key := [3]string{string(m.Kind), m.App, m.Name}
		if before, ok := seen[key]; ok {
			problems = append(problems, fmt.Errorf(
				"%s: %s %s/%s is also in %s: give it once", m.Source, m.Kind, m.App, m.Name, before,
			))
		}
		seen[key] = m.Source
	}
	return problems
}

// files returns a file, or the files of definitions below a folder, also behind links: apply
// --prune deletes the timers of a folder that is left out. It leaves out folders below it whose
// names begin with a dot: those of tools, and in a mounted ConfigMap the one to whose files the
// links beside it lead, which would be read twice.
func files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	f := &folders{}
	if err == nil {
		err = f.read(path, info)
	}
	if err != nil {
		return nil, fmt.Errorf("finding definitions: %w", err)
	}
	return f.found, nil
}

// folders collects the files of definitions below folders. It reads each folder once, however many
// links lead to it, or back to it from below.
type folders struct {
	seen  []fs.FileInfo
	found []string
}

func (f *folders) read(folder string, info fs.FileInfo) error {
	if slices.ContainsFunc(f.seen, func(was fs.FileInfo) bool { return os.SameFile(was, info) }) {
		return nil
	}
	f.seen = append(f.seen, info)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err //nolint:wrapcheck // files says what it was doing
	}
	for _, e := range entries {
		name, hidden := filepath.Join(folder, e.Name()), strings.HasPrefix(e.Name(), ".")
		info, err := os.Stat(name) // of what a link leads to
		switch {
		case err == nil && info.IsDir():
			if !hidden {
				err = f.read(name, info)
			}
		case slices.Contains([]string{".yaml", ".yml", ".json", ".ndjson"}, filepath.Ext(name)):
			f.found, err = append(f.found, name), nil // who reads it tells the error
		case hidden:
			err = nil
		}
		if err != nil { // also of a link that leads nowhere: it may be of a folder
			return err //nolint:wrapcheck // files says what it was doing
		}
	}
	return nil
}
