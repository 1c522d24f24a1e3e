package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

//go:embed templates
var templateFiles embed.FS

// views are the pages of one language.
type views struct {
	texts    texts
	language string
	pages    map[string]*template.Template
}

// loadViews parses every page once for each language, so that a broken template stops the start.
func loadViews() (map[string]*views, error) {
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("templates: %w", err)
	}
	all := make(map[string]*views)
	for _, l := range languages {
		t, err := loadTexts(l)
		if err != nil {
			return nil, err
		}
		v := &views{texts: t, language: l, pages: make(map[string]*template.Template)}
		for _, name := range names {
			short := strings.TrimSuffix(strings.TrimPrefix(name, "templates/"), ".html")
			if short == "layout" {
				continue
			}
			page, err := template.New("layout.html").Funcs(v.functions()).
				ParseFS(templateFiles, "templates/layout.html", name)
			if err != nil {
				return nil, fmt.Errorf("templates: %w", err)
			}
			v.pages[short] = page
		}
		all[l] = v
	}
	return all, nil
}

func (v *views) render(name string, f *frame) ([]byte, error) {
	var b bytes.Buffer
	if err := v.pages[name].Execute(&b, f); err != nil {
		return nil, err //nolint:wrapcheck // the caller names the page
	}
	return b.Bytes(), nil
}

func (v *views) renderPart(name, part string, f *frame) ([]byte, error) {
	var b bytes.Buffer
	if err := v.pages[name].ExecuteTemplate(&b, part, f); err != nil {
		return nil, err //nolint:wrapcheck // the caller names the page
	}
	return b.Bytes(), nil
}

func (v *views) functions() template.FuncMap {
	return template.FuncMap{
		"t":        v.texts.get,
		"tv":       v.texts.value,
		"schedule": v.describeSchedule,
		"may":      func(scope string, c callerBody) bool { return c.May(scope) },
		"list":     func(items ...string) []string { return items },
		"asset":    func(name string) string { return Prefix + "/static/" + name + "?v=" + assetVersion() },
		"path":     func(parts ...string) string { return Prefix + "/apps" + pathOf(parts...) },
		"local":    localTime,
		"json":     toJSON,
		"field":    func(name string, d *editorData) fieldErrors { return fieldErrors{name, d.Errors[name]} },
		"choices":  choices,
		"misfires": func() []string { return append([]string{""}, misfirePolicies()...) },
		"when":     func(at, zone string) stamp { return stamp{at, zone} },
		"none": func(next string, later bool, text string) nothing {
			return nothing{next, later, text}
		},
	}
}

// choices returns the items of a list, with the present value if it is none of them. A list that does
// not have the value would show another one, and replace it when it is sent.
func choices(now string, items []string) []string {
	if slices.Contains(items, now) {
		return items
	}
	return append([]string{now}, items...)
}

// misfirePolicies returns the names of all misfire policies. A policy that the editor does not offer
// would be replaced by the default when a timer is saved.
func misfirePolicies() (names []string) {
	for _, p := range timer.MisfirePolicies() {
		names = append(names, string(p.Policy))
	}
	return names
}

// stamp is an instant in RFC 3339, and the zone in which a page shows it.
type stamp struct{ At, Zone string }

// nothing is a page of a list that has no items. The API limits how far one request searches, so a
// page may be empty although there is a next one.
type nothing struct {
	Next  string // address of the next page
	Later bool   // there were pages before
	Text  string // of a list that is empty
}

// shownInstant is the form of instants on pages. Explanations and searches are about milliseconds.
const shownInstant = "2006-01-02 15:04:05.999 -07:00"

// localTime returns an instant by the clock of a zone. An instant or zone that it cannot read is
// shown as it is.
func localTime(at, name string) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	table, err := zone.Load(name)
	if err != nil {
		return at
	}
	return t.In(table.Location()).Format(shownInstant)
}

// toJSON returns indented JSON for a definition. Templates escape it as any text.
func toJSON(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b), err
}

// frame is what every page has.
type frame struct {
	Language, Theme string
	App             string
	Here            string // the path and query of this page
	Current         string // the name of the page
	Signed, Keyless bool
	Did             string // what the viewer has just done
	Caller          callerBody
	State           *appState // nil: not known, or not shown
	Data            any
}

func (q *request) frame(data any) *frame {
	here := q.r.URL.RequestURI()
	if q.r.Method != http.MethodGet {
		here = Prefix + "/"
	}
	current := "timers"
	if q.app == "" {
		current = ""
		if rest := strings.Split(q.r.URL.Path, "/"); len(rest) > 2 && rest[2] == "operations" {
			current = rest[2] // and what is below it
		}
	} else if rest := strings.Split(q.r.URL.EscapedPath(), "/"); len(rest) > 4 {
		current = rest[4]
	}
	return &frame{
		Language: q.views.language, Theme: themeOf(q.r), App: q.app, Here: here, Current: current,
		Signed: q.signed, Keyless: q.page.opts.Keyless, Did: q.takeDid(), Data: data,
		Caller: q.caller(),
	}
}

// assetVersion returns a hash of the embedded files.
var assetVersion = sync.OnceValue(func() string {
	h := sha256.New()
	_ = fs.WalkDir(static, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := static.ReadFile(path)
		h.Write(b)
		return err //nolint:wrapcheck // embedded files are readable
	})
	return hex.EncodeToString(h.Sum(nil))[:12]
})
