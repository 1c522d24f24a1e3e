package importer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	// Now decides which instants have passed; the clock's where it is zero.
	Now time.Time
}

// Result is what became of one entry, or the notes on a line that is none.
type Result struct {
	Source   string             // where the entry is, such as "line 7"
	Manifest *manifest.Manifest // nil if the entry could not be carried over, or is none
	Notes    []string           // what is different
	Refused  []string           // why the entry could not be carried over

	url string // Options.URL, if the timer calls it
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
		"cron.d":      crontabWithUsers,
		"kubernetes":  kubernetes,
		"xtimer":      xtimer,
		"xxl-job":     xxlJob,
		"eventbridge": eventBridge,
	}
}

// Systems returns the names of the systems, sorted.
func Systems() []string { return slices.Sorted(maps.Keys(readers())) }

// Read converts a file of a system. Entries with one name get numbers, by their order. The API
// accepts each manifest, unless the deployment's own rules refuse it.
func Read(system string, data []byte, opts Options) ([]Result, error) {
	read := readers()[system]
	if read == nil {
		return nil, fmt.Errorf(
			"expected %s, found %q", strings.Join(Systems(), ", "), system,
		)
	}
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	// Editors of Windows begin files with a byte order mark.
	results, err := read(bytes.TrimPrefix(data, []byte("\ufeff")), opts)
	if err != nil {
		return nil, fmt.Errorf("reading the %s file: %w", system, err)
	}
	numberNames(results)
	return results, nil
}

func newEntry(opts Options, source string) *entry {
	return &entry{
		opts:   opts,
		result: Result{Source: source},
		body:   client.Object{"status": "active"},
	}
}

// place names an entry or a document by its number, from 1, and by its name if it has one.
func place(what string, n int, name string) string {
	if name == "" {
		return fmt.Sprintf("%s %d", what, n)
	}
	return fmt.Sprintf("%s %d, %s", what, n, name)
}

// notef notes what is different.
func (e *entry) notef(format string, args ...any) {
	e.result.Notes = append(e.result.Notes, fmt.Sprintf(format, args...))
}

// refusef returns the entry without a manifest, and why.
func (e *entry) refusef(format string, args ...any) Result {
	e.result.Refused = append(e.result.Refused, fmt.Sprintf(format, args...))
	e.result.Manifest = nil
	return e.result
}

// field returns a part of the definition that is an object, such as "retry". It creates the part if
// there is none.
func (e *entry) field(name string) client.Object {
	o := e.body.Object(name)
	if o == nil {
		o = client.Object{}
		e.body[name] = map[string]any(o)
	}
	return o
}

// setBody sets the body of the call.
func (e *entry) setBody(body string) {
	if utf8.ValidString(body) {
		e.field("target")["body"] = body
		return
	}
	e.field("target")["body_base64"] = base64.StdEncoding.EncodeToString([]byte(body))
}

// cron sets the schedule to a cron expression. whose is whose zone the other system uses for
// entries that name none.
func (e *entry) cron(spec, zone, whose string) {
	s := map[string]any{"kind": "cron", "specs": []any{spec}}
	if zone == "" {
		zone = e.opts.Zone
	}
	if zone != "" {
		s["time_zone"] = zone
	} else {
		e.notef(
			"it used the time zone of %s: give it by --tz if it was not the deployment's default",
			whose,
		)
	}
	e.body["schedule"] = s
}

// followClock makes a cron schedule due whenever the local time matches: not at times that do not
// exist, and twice at those that occur twice. In UTC there are neither.
func (e *entry) followClock() {
	if s := e.body.Object("schedule"); s.Text("time_zone") != "UTC" {
		s["gap"], s["overlap"] = string(timer.GapSkip), string(timer.OverlapBoth)
	}
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
	if valid := validName(name, timer.MaxNameLen); valid != name {
		e.notef("its name %q is no name of a timer: it is %s", name, valid)
		name = valid
	}
	if e.url == "" {
		if e.opts.URL == "" {
			return e.refusef(
				"it calls no URL: give one for such entries by --url, for example https://example.com/run/{name}",
			)
		}
		e.result.url = e.opts.URL
		e.url = urlOf(e.opts.URL, name)
	}
	e.field("target")["url"] = e.url
	e.body["app"], e.body["name"] = app, name
	why, err := e.check()
	if err != nil {
		why = []string{err.Error()}
	}
	if len(why) > 0 {
		e.result.Refused = why
		return e.result
	}
	e.result.Manifest = &manifest.Manifest{
		Kind: manifest.Timer, App: app, Name: name, Body: e.body, Source: e.result.Source,
	}
	return e.result
}
