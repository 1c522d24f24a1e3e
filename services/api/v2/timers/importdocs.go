package timers

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/v2/calendars"
)

// importDoc is one document of an import.
type importDoc struct {
	kind, name string
	timer      newTimerBody           // of a timer
	calendar   calendars.CalendarBody // of a calendar
	err        error                  // why it cannot be read
}

// documentSchemas are the schemas of documents, by which huma checks the bodies of requests.
type documentSchemas struct {
	registry        huma.Registry
	timer, calendar *huma.Schema
}

func newDocumentSchemas(registry huma.Registry) *documentSchemas {
	return &documentSchemas{
		registry: registry,
		timer:    registry.Schema(reflect.TypeFor[newTimerBody](), true, ""),
		calendar: registry.Schema(reflect.TypeFor[calendars.CalendarBody](), true, ""),
	}
}

// read reads a document. It is checked like the body of a request of its own.
func (d *documentSchemas) read(text []byte, app string) (out importDoc) {
	out.kind = kindTimer
	text, err := definition.DocumentJSON(text)
	if err != nil {
		out.err = timer.Invalid("body", "expected JSON or YAML: "+err.Error())
		return out
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil || fields == nil {
		out.err = timer.Invalid(
			"body",
			"expected an object with kind and name, found another value",
		)
		return out
	}
	out.name, _ = fields["name"].(string)
	if kind, ok := fields["kind"]; ok {
		out.kind = fmt.Sprint(kind)
	}
	delete(fields, "kind")
	if had, ok := fields["app"]; ok && had != app {
		out.err = timer.Invalid("app", fmt.Sprintf(
			"expected %q, the app of the import, found %v: leave it out", app, had,
		))
		return out
	}
	fields["app"] = app
	switch out.kind {
	case kindTimer:
		out.err = d.decode(d.timer, fields, &out.timer)
	case kindCalendar:
		delete(fields, "app")
		delete(fields, "name")
		out.err = d.decode(d.calendar, fields, &out.calendar)
	default:
		out.err = timer.Invalid(
			"kind",
			fmt.Sprintf("expected timer or calendar, found %q", out.kind),
		)
	}
	return out
}

func (d *documentSchemas) decode(s *huma.Schema, fields map[string]any, v any) error {
	var found huma.ValidateResult
	path := huma.NewPathBuffer(nil, 0)
	path.Push("body")
	huma.Validate(d.registry, s, path, huma.ModeWriteToServer, fields, &found)
	if len(found.Errors) > 0 {
		return huma.Error422UnprocessableEntity("validation failed", found.Errors...)
	}
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return timer.Invalid("body", "expected another type: "+err.Error())
	}
	return setDefaults(reflect.ValueOf(v))
}
