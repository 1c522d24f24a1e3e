package importer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// Options are what the files of other systems do not say.
type Options struct {
	App string
	// URL is called by timers whose entry names no URL; {name} in it is the timer's name. If it is
	// empty, such entries are not carried over.
	URL  string
	Zone string // IANA zone of entries without one; empty is the deployment's default
}

// Result is what became of one entry.
type Result struct {
	Source   string             // where the entry is, such as "line 7"
	Manifest *manifest.Manifest // nil if the entry could not be carried over
	Notes    []string           // what is different, or why there is no manifest
}

// entry is a schedule of another system that is being converted.
type entry struct {
	opts   Options
	result Result
	body   client.Object
	url    string
}

// reader converts a file.
type reader func(data []byte, opts Options) ([]Result, error)

func readers() map[string]reader {
	return map[string]reader{
		"crontab":     crontab,
		"kubernetes":  kubernetes,
		"xtimer":      xtimer,
		"xxl-job":     xxlJob,
		"eventbridge": eventBridge,
	}
}

// Systems returns the names of the systems, sorted.
func Systems() []string { return slices.Sorted(maps.Keys(readers())) }

// Read converts a file of a system. Entries with one name get numbers.
func Read(system string, data []byte, opts Options) ([]Result, error) {
	read := readers()[system]
	if read == nil {
		return nil, fmt.Errorf(
			"expected %s, found %q", strings.Join(Systems(), ", "), system,
		)
	}
	results, err := read(data, opts)
	if err != nil {
		return nil, fmt.Errorf("reading the %s file: %w", system, err)
	}
	numberNames(results)
	return results, nil
}

// numberNames makes the names of timers unique.
func numberNames(results []Result) {
	seen := make(map[string]int)
	for i := range results {
		m := results[i].Manifest
		if m == nil {
			continue
		}
		seen[m.App+"/"+m.Name]++
		if n := seen[m.App+"/"+m.Name]; n > 1 {
			m.Name += "-" + strconv.Itoa(n)
			m.Body["name"] = m.Name
			results[i].Notes = append(
				results[i].Notes,
				"another entry has the same name: it is "+m.Name,
			)
		}
	}
}

func newEntry(opts Options, source string) *entry {
	return &entry{
		opts:   opts,
		result: Result{Source: source},
		body:   client.Object{"status": "active"},
	}
}

// notef notes what is different.
func (e *entry) notef(format string, args ...any) {
	e.result.Notes = append(e.result.Notes, fmt.Sprintf(format, args...))
}

// refusef returns the entry without a manifest, and why.
func (e *entry) refusef(format string, args ...any) Result {
	e.notef(format, args...)
	e.result.Manifest = nil
	return e.result
}

// cron sets the schedule to a cron expression.
func (e *entry) cron(spec, zone string) {
	s := map[string]any{"kind": "cron", "specs": []any{spec}}
	if zone == "" {
		zone = e.opts.Zone
	}
	if zone != "" {
		s["time_zone"] = zone
	}
	e.body["schedule"] = s
}

// finish returns the entry as a manifest for an app and a name.
func (e *entry) finish(app, name string) Result {
	if app == "" {
		app = e.opts.App
	}
	if app == "" {
		return e.refusef("no app: give --app")
	}
	if name == "" {
		return e.refusef("no name")
	}
	if e.url == "" {
		if e.opts.URL == "" {
			return e.refusef(
				"it calls no URL: give one for such entries by --url, for example https://example.com/run/{name}",
			)
		}
		e.url = strings.ReplaceAll(e.opts.URL, "{name}", name)
		e.notef("it calls %s", e.url)
	}
	target := e.body.Object("target")
	if target == nil {
		target = client.Object{}
	}
	target["url"] = e.url
	e.body["target"] = map[string]any(target)
	e.body["app"], e.body["name"] = app, name
	if why := e.checkSchedule(); why != "" {
		return e.refusef("the schedule cannot be carried over: %s", why)
	}
	e.result.Manifest = &manifest.Manifest{
		Kind: manifest.Timer, App: app, Name: name, Body: e.body, Source: e.result.Source,
	}
	return e.result
}

// checkSchedule returns what is wrong with a cron schedule; "" if nothing is.
func (e *entry) checkSchedule() string {
	s := e.body.Object("schedule")
	if s.Text("kind") != "cron" {
		return ""
	}
	d := timer.Schedule{Kind: timer.KindCron, Zone: s.Text("time_zone")}
	for _, spec := range s.List("specs") {
		d.Specs = append(d.Specs, fmt.Sprint(spec))
	}
	if err := schedule.Check(&d); err != nil {
		return err.Error()
	}
	return ""
}
