package ui

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

const (
	auditOnPage = "50"
	maxShown    = 400 // characters of a value
)

// auditFilters and auditInstants are the parameters of the list.
var (
	auditFilters  = []string{"kind", "action", "actor", "timer"}
	auditInstants = []string{"from", "to"}
)

type auditEntry struct {
	ID, At string
	Actor  struct{ Kind, ID, Name, Address, Job string }

	RequestID                    string `json:"request_id"`
	Action, Kind, Resource, Name string
	Before, After                map[string]any
	Changes                      []auditChange `json:"-"`
}

// auditChange is a field that a change made different. Empty texts stand for no field.
type auditChange struct{ Field, Before, After string }

type auditData struct {
	listing

	Items []auditEntry
	Path  string // of this page

	People bool // the viewer may end the sessions of people
}

// listAudit shows who changed what in an app, or in the deployment.
func listAudit(q *request) error {
	d := &auditData{
		listing: q.readListing(auditOnPage, auditFilters, auditInstants),
		Path:    Prefix + "/operations/audit",
	}
	api := "/audit"
	if q.app != "" {
		api, d.Path = "/apps"+pathOf(q.app, "audit"), q.appPath("audit")
	}
	var list struct {
		Items      []auditEntry
		NextCursor string `json:"next_cursor"`
	}
	if err := d.read(q, api, &list); err != nil {
		return err
	}
	d.Items, d.People = list.Items, q.endsSessions()
	for i := range d.Items {
		d.Items[i].Changes = d.Items[i].changes()
	}
	d.end(d.Path, list.NextCursor)
	return q.show("audit", d)
}

// changes returns the fields that somebody has changed. A fire that was added or completed and a
// test call change none, and the version follows from the others.
func (e *auditEntry) changes() []auditChange {
	switch e.Action {
	case "run", "test", "complete":
		return nil
	}
	return slices.DeleteFunc(changesOf(e.Before, e.After), func(c auditChange) bool {
		return c.Field == "version"
	})
}

// changesOf returns the fields that differ, by name.
func changesOf(before, after map[string]any) (changes []auditChange) {
	was, is := make(map[string]string), make(map[string]string)
	flatten(was, "", before)
	flatten(is, "", after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if was[name] != is[name] {
			changes = append(changes, newChange(name, was[name], is[name]))
		}
	}
	return changes
}

// flatten adds the fields of an object by their path. A list is one field.
func flatten(to map[string]string, path string, fields map[string]any) {
	for name, value := range fields {
		if path != "" {
			name = path + "." + name
		}
		switch v := value.(type) {
		case map[string]any:
			flatten(to, name, v)
		case string:
			to[name] = v
		case nil:
		default:
			text, err := json.Marshal(v)
			if err != nil {
				text = fmt.Append(nil, v)
			}
			to[name] = string(text)
		}
	}
}

// newChange shows of long texts what is about the first difference.
func newChange(field, before, after string) auditChange {
	was, is := []rune(before), []rune(after)
	same := 0
	for same < min(len(was), len(is)) && was[same] == is[same] {
		same++
	}
	from := max(0, same-maxShown/4)
	return auditChange{field, excerpt(was, from), excerpt(is, from)}
}

// excerpt returns a part of a long text. A short one is shown as a whole.
func excerpt(text []rune, from int) string {
	if len(text) <= maxShown {
		return string(text)
	}
	out := string(text[from:min(from+maxShown, len(text))])
	if from > 0 {
		out = "…" + out
	}
	if from+maxShown < len(text) {
		out += "…"
	}
	return out
}
