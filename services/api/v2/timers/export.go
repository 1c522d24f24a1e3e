package timers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/calendars"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

const (
	exportPage        = 500
	exportPageTimeout = 10 * time.Second // of a page: its read, and its write to the caller
	// MaxExports is how many exports a process makes at once: a page is in memory while the caller
	// takes it, as slowly as it likes.
	MaxExports = 32
)

// The kinds of documents.
const (
	kindTimer    = "timer"
	kindCalendar = "calendar"
)

type exportInput struct {
	param.PathAppParam

	Format   string `query:"format" enum:"ndjson,yaml" default:"ndjson" doc:"ndjson: a line of JSON for each. yaml: a YAML document for each."`
	OneShots string `query:"one_shots" enum:"all,pending" default:"all" doc:"all: the one-shots that have come due, too. pending: without these, because an import elsewhere would call them again; inactive ones are exported as such."`
}

const oneShotsPending = "pending"

// exportApp streams the app's calendars, then its timers, both by name. It reads page by page, so
// an app that changes meanwhile is not exported as of one instant. If a page cannot be read, if the
// caller's key was revoked, or if the process stops, it breaks the connection: the caller sees that
// the end is missing.
func (s *Resource) exportApp(ctx context.Context, in *exportInput) (*huma.StreamResponse, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	if !s.Exports.TryAcquire(in.App) {
		return nil, problem.Busy(fmt.Sprintf(
			"too many exports: this process makes %d at once, and %d of an app: repeat the request "+
				"when one has ended",
			s.Exports.Most(),
			s.Exports.PerApp(),
		))
	}
	// A whole export may take longer than other requests. Each page has its own time.
	x := &export{resource: s, ctx: context.WithoutCancel(ctx), in: in}
	first, err := x.page()
	if err != nil {
		s.Exports.Release(in.App)
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer s.Exports.Release(in.App)
		c.SetHeader("Content-Type", map[string]string{
			yamltext.NDJSON: "application/x-ndjson", yamltext.YAML: "application/yaml",
		}[in.Format])
		_, w := humachi.Unwrap(c)
		for page := first; ; {
			// A test recorder has no deadline, so the error is ignored.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportPageTimeout))
			if _, err := w.Write(page); err != nil || x.done {
				return // the caller has gone, or has it all
			}
			if err = x.mayGoOn(); err == nil {
				page, err = x.page()
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}}, nil
}

// export is one export and how far it is.
type export struct {
	resource *Resource
	ctx      context.Context
	in       *exportInput

	calendar string // the last one
	timers   bool   // all calendars are exported
	after    store.SearchPosition
	done     bool
}

// mayGoOn returns an error once the export must end: its key was revoked, or the process stops.
func (x *export) mayGoOn() error {
	select {
	case <-process.Stopping(x.ctx):
		return process.ErrStopping
	default:
		return x.resource.Auth.StillAdmitted(x.ctx)
	}
}

// page returns the next documents. There may be none although there are more.
func (x *export) page() ([]byte, error) {
	ctx, cancel := context.WithTimeout(x.ctx, exportPageTimeout)
	defer cancel()
	var out bytes.Buffer
	if !x.timers {
		found, err := x.resource.Store.Calendars(
			ctx, x.in.App, x.calendar, calendars.ReadAtOnce)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range found {
			x.calendar = found[i].Name
			shown := calendars.Show(x.in.App, &found[i])
			if err := x.write(&out, kindCalendar, shown); err != nil {
				return nil, err
			}
		}
		x.timers = len(found) < calendars.ReadAtOnce
		return out.Bytes(), nil
	}
	found, err := x.resource.Store.Search(ctx, store.SearchQuery{
		Filter: store.Filter{App: x.in.App},
		Sort:   store.SortName, // an import elsewhere gives other ids
		After:  x.after,
		Limit:  exportPage,

		MaxBodyBytes: maxPageBodies,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	now := x.resource.Now().UnixMilli()
	for i := range found.Timers {
		if x.in.OneShots == oneShotsPending && hasComeDue(&found.Timers[i], now) {
			continue
		}
		if err := store.CheckReadable(&found.Timers[i]); err != nil { // an import would lack it
			return nil, fmt.Errorf("timer %q: %w", found.Timers[i].Name, err)
		}
		if err := x.write(&out, kindTimer, showTimer(&found.Timers[i], 0)); err != nil {
			return nil, err
		}
	}
	x.after, x.done = found.Next, !found.More
	return out.Bytes(), nil
}

// hasComeDue returns whether a timer is a one-shot whose fire was due before now, by its latest
// activation. That of an inactive one may be called after its next activation.
func hasComeDue(t *timer.Timer, nowMS int64) bool {
	return t.Definition.Schedule.Kind.OneShot() && t.Status != timer.StatusInactive &&
		t.NextDueMS == timer.NeverMS && t.LastDueMS <= nowMS
}

// write appends one document. The status of a paused timer is left out, because a definition cannot
// pause.
func (x *export) write(out *bytes.Buffer, kind string, shown any) error {
	doc, err := document(kind, shown)
	if err != nil {
		return err
	}
	if x.in.Format == yamltext.YAML {
		text, err := yamltext.Marshal(doc)
		if err != nil {
			return fmt.Errorf("encoding a document: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
		return nil
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encoding a document: %w", err)
	}
	out.Write(yamltext.EscapeJSON(text)) // an import may read it as YAML
	out.WriteByte('\n')
	return nil
}

// document returns what the API shows as a document of an export.
func document(kind string, shown any) (map[string]any, error) {
	text, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encoding a document: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("encoding a document: %w", err)
	}
	for _, name := range append(definition.ShownOnly(), "app") {
		delete(doc, name)
	}
	if s := doc["status"]; s != string(timer.StatusActive) && s != string(timer.StatusInactive) {
		delete(doc, "status")
	}
	doc["kind"] = kind
	return doc, nil
}

// ShowDefinition returns a definition as an export has it: without secrets, and without what is not
// part of it.
func ShowDefinition(d *timer.Definition) (map[string]any, error) {
	doc, err := document(kindTimer, showTimer(&timer.Timer{Definition: *d}, 0))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"kind", "name", "status"} {
		delete(doc, name)
	}
	return doc, nil
}
