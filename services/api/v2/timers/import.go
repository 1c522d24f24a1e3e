package timers

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// maxDocuments limits an import.
const maxDocuments = 5000

type importInput struct {
	param.PathAppParam
	param.DryRunParam

	Format  string `query:"format" enum:"ndjson,yaml" doc:"ndjson: a line of JSON for each. yaml: a YAML document for each. Where it is left out, a body whose first line is a whole JSON object is ndjson."`
	RawBody []byte `contentType:"application/octet-stream" required:"true" doc:"The documents of an export, at most 5000 and 2 MiB; send a longer one in parts, calendars first."`
}

type importOutput struct{ Body importedBody }

type importedBody struct {
	DryRun    bool               `json:"dry_run,omitempty" doc:"Nothing was written."`
	Created   int                `json:"created"`
	Changed   int                `json:"changed"`
	Unchanged int                `json:"unchanged"`
	Failed    int                `json:"failed" doc:"Documents that wrote nothing, or may have: see their errors."`
	Items     []importedItemBody `json:"items" nullable:"false" doc:"A result for each document, in their order."`
}

type importedItemBody struct {
	Kind   string           `json:"kind" doc:"timer or calendar, as the document says."`
	Name   string           `json:"name"`
	Result string           `json:"result" enum:"created,changed,unchanged,failed" doc:"What became of it."`
	Error  *huma.ErrorModel `json:"error,omitempty" doc:"Why it failed, as the answer to a request of its own would say. After a 503 the write may have happened: send the document again."`
}

// The results of a document, besides those of a batch's item.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
)

// importApp writes calendars one after the other, then timers at once, each with the code of a PUT.
// If the process dies halfway, some are written; the same request again finds them unchanged and
// writes the rest.
func (s *Resource) importApp(ctx context.Context, in *importInput) (*importOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	if err := input.CheckNewApp("path.app", in.App); err != nil {
		return nil, err
	}
	texts := yamltext.Split(in.RawBody, in.Format)
	if n := len(texts); n == 0 || n > maxDocuments {
		return nil, timer.Invalid("body", fmt.Sprintf(
			"expected 1 to %d documents, found %d: send them in parts", maxDocuments, n,
		))
	}
	im := &importer{Resource: s, app: in.App, dryRun: in.DryRun, made: make(map[string]bool)}
	docs := make([]importDoc, len(texts))
	for i := range texts {
		docs[i] = s.documents.read(texts[i], in.App)
	}
	refuseTwice(docs)
	out := &importOutput{Body: importedBody{DryRun: in.DryRun}}
	out.Body.Items = make([]importedItemBody, len(docs))
	var timers errgroup.Group
	timers.SetLimit(batchConcurrency)
	for i := range docs { // timers name calendars
		if docs[i].kind == kindCalendar {
			out.Body.Items[i] = im.write(ctx, &docs[i])
		}
	}
	for i := range docs {
		if docs[i].kind != kindCalendar {
			timers.Go(func() error {
				out.Body.Items[i] = im.write(ctx, &docs[i])
				return nil
			})
		}
	}
	_ = timers.Wait() // the results have the errors
	for i := range out.Body.Items {
		switch out.Body.Items[i].Result {
		case resultCreated:
			out.Body.Created++
		case resultChanged:
			out.Body.Changed++
		case resultUnchanged:
			out.Body.Unchanged++
		default:
			out.Body.Failed++
		}
	}
	return out, nil
}

// refuseTwice makes a document fail whose name an earlier one of its kind has.
func refuseTwice(docs []importDoc) {
	seen := make(map[[2]string]int, len(docs))
	for i := range docs {
		key := [2]string{docs[i].kind, docs[i].name}
		if first, ok := seen[key]; ok && docs[i].err == nil {
			docs[i].err = timer.Invalid("name", fmt.Sprintf(
				"expected each name once, found %q as document %d too", docs[i].name, first+1,
			))
		}
		seen[key] = i
	}
}

// importer is one import.
type importer struct {
	*Resource

	app    string
	dryRun bool
	made   map[string]bool // calendars that a dry run did not create
}

func (im *importer) write(ctx context.Context, d *importDoc) importedItemBody {
	r := importedItemBody{Kind: d.kind, Name: d.name}
	err := d.err
	if err == nil {
		if d.kind == kindCalendar {
			r.Result, err = im.calendar(ctx, d)
		} else {
			r.Result, err = im.timer(ctx, &d.timer)
		}
	}
	if err != nil {
		r.Result, r.Error = resultFailed, im.Definitions.Problems.Model(ctx, err)
	}
	return r
}

// calendar writes a calendar. The store tells by the version whether that changed it.
func (im *importer) calendar(ctx context.Context, d *importDoc) (string, error) {
	if err := input.CheckNewCalendar("name", d.name); err != nil {
		return "", err
	}
	c := d.calendar.Read(d.name)
	if err := calendar.Check(&c); err != nil {
		return "", err //nolint:wrapcheck // it names the field
	}
	had, err := im.Store.Calendar(ctx, im.app, d.name)
	isNew := timer.CodeOf(err) == timer.CodeNotFound
	if err != nil && !isNew {
		return "", err //nolint:wrapcheck // the store says what it was doing
	}
	is, err := im.Store.PutCalendar(ctx, im.app, c, 0)
	switch {
	case err != nil:
		return "", err //nolint:wrapcheck // the store says what it was doing
	case isNew:
		im.made[d.name] = im.dryRun
		return resultCreated, nil
	case is.Version == had.Version:
		return resultUnchanged, nil
	}
	return resultChanged, nil
}

// timer creates a timer, or gives the one of its name the definition and the status.
func (im *importer) timer(ctx context.Context, b *newTimerBody) (string, error) {
	had, err := im.Store.TimerByName(ctx, im.app, b.Name)
	exists := err == nil
	if err != nil && timer.CodeOf(err) != timer.CodeNotFound {
		return "", err //nolint:wrapcheck // the store says what it was doing
	}
	var stored *timer.Definition
	if exists {
		stored = &had.Definition
	}
	if im.dryRun {
		im.withoutMade(b)
	}
	n, err := im.newTimer(ctx, b, "", stored)
	if err != nil {
		return "", err
	}
	status := timer.Status(b.Status)
	result := resultChanged
	switch {
	case !exists:
		result = resultCreated
	case reflect.DeepEqual(had.Definition, n.Definition) && !changesStatus(&had, status):
		return resultUnchanged, nil
	}
	var t timer.Timer
	var created bool
	if exists && hasRedacted(b) {
		t, err = im.putRedacted(ctx, b, n, &had, &condition{any: true})
	} else {
		t, created, err = im.put(ctx, n, status)
	}
	switch {
	case err != nil:
		return "", err
	case created:
		return resultCreated, nil
	case exists && t.ID == had.ID && t.Version == had.Version && t.Status == had.Status:
		return resultUnchanged, nil
	}
	return result, nil
}

// withoutMade takes the calendars out of a schedule that a dry run did not create: the rest is
// checked.
func (im *importer) withoutMade(b *newTimerBody) {
	before := len(b.Schedule.Calendars)
	b.Schedule.Calendars = slices.DeleteFunc(
		slices.Clone(b.Schedule.Calendars),
		func(name string) bool { return im.made[name] },
	)
	if before > 0 && len(b.Schedule.Calendars) == 0 {
		b.Schedule.Excluded = ""
	}
}
