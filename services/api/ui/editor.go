package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// newDefinition is what the editor of a new timer begins with.
const newDefinition = `name: ""
status: active
schedule:
  kind: cron
  specs:
    - 0 9 * * MON-FRI
  time_zone: UTC
target:
  kind: http
  method: POST
  url: ""
`

// editorData is a definition as form and as YAML. The form shows the fields that most timers have,
// the YAML shows all. Base is the YAML from which both sides were made: what differs from it on one
// side was changed there.
type editorData struct {
	ID       string // empty for a new timer
	Name     string
	Version  string // that the viewer has seen
	Status   string // that the definition had which the viewer has seen; empty: none that it may have
	Path     string // where the editor is
	YAML     string
	Base     string
	Opened   string // a part of the YAML as the editor was opened: see restore
	Form     map[string]string
	Simple   bool // the form can show the target
	Errors   map[string][]string
	Others   []fieldError // errors about no field of the form
	Refused  *apiError
	Broken   string // why the YAML cannot be read
	Synced   bool   // this is an answer to what the viewer types, and no whole page
	Upcoming []string
	Zone     string
	Schedule schedule
	Warnings []struct{ Message string }
	SignIn   string // where a viewer signs in whose session has ended
	Gone     bool   // somebody has deleted the timer

	Unreadable string // why the stored definition cannot be read, as the editor is opened
	Unsaved    bool   // it has what the viewer entered
	Theirs     string // the present definition, where somebody else has changed it

	Calls       []testedCall // of a test call
	TestRefused *apiError    // why there was none
	TestSignIn  string       // where a viewer signs in who is not for a test call
}

// testedCall is the answer of a target to a test call.
type testedCall struct {
	Target, Outcome, Failure, Error, Answer string

	StatusCode int   `json:"status_code"`
	DurationMS int64 `json:"duration_ms"`
	Headers    map[string]string
}

// Limit returns how large the form may be.
func (*editorData) Limit() int { return MaxFormBytes }

// Statuses returns the statuses that the form offers. A definition ends no pause, so it offers none
// that would.
func (d *editorData) Statuses() []string {
	if d.ID != "" && d.Status == "" { // it is paused
		return []string{"inactive"}
	}
	return []string{"active", "inactive"}
}

// newDocument returns a new definition with a name, and with a status unless it is empty.
func newDocument(name, status string) (*document, error) {
	doc, err := parseDocument(newDefinition)
	if err != nil {
		return nil, err
	}
	doc.set(yamltext.Text(name), "name")
	if doc.remove("status"); status != "" {
		doc.set(yamltext.Text(status), "status")
	}
	return doc, nil
}

// showEditor shows a definition to edit, or a new one, which may be a copy.
func showEditor(q *request) error {
	if err := q.needWrite(); err != nil {
		return err
	}
	id := q.r.PathValue("id")
	from := q.r.URL.Query().Get("from")
	d := &editorData{ID: id, Base: newDefinition, Path: q.appPath("timers", "new")}
	if id != "" {
		from, d.Path = id, q.appPath("timers", id, "edit")
	}
	if from != "" {
		t, doc, err := q.readDefinition(from)
		if err != nil {
			return err
		}
		if t.Unreadable != "" { // its fields are those of an empty definition
			if doc, err = newDocument(doc.text("name"), doc.text("status")); err != nil {
				return err
			}
		}
		if id == "" {
			doc.set(yamltext.Text(t.Name+" 2"), "name")
			if doc.text("status") == "" { // a pause is not copied
				doc.set(yamltext.Text("inactive"), "status")
			}
		} else {
			d.Name, d.Version, d.Status = t.Name, strconv.Itoa(t.Version), doc.text("status")
			d.Unreadable = t.Unreadable
		}
		d.Base = doc.String()
	}
	d.YAML = d.Base
	doc, err := parseDocument(d.Base)
	if err != nil {
		return err
	}
	d.Opened = doc.asOpened().String()
	d.fill(doc)
	if from != "" {
		if err := q.tryDefinition(d, doc); err != nil {
			return err
		}
	}
	return q.show("editor", d)
}

func (q *request) readDefinition(id string) (t rawTimer, doc *document, err error) {
	err = q.get("/timers"+pathOf(id), url.Values{"app": {q.app}}, &t)
	if err == nil {
		doc, err = documentOf(t.Raw)
	}
	return t, doc, err
}

// fill shows a document as form.
func (d *editorData) fill(doc *document) {
	d.Form = doc.form()
	kind := doc.text("target", "kind")
	d.Simple = doc.find("targets") == nil && (kind == "" || kind == "http") &&
		doc.text("target", "body_base64") == ""
}

// enteredEditor returns what the viewer has entered, as it is. It reads no YAML, so it is also for a
// viewer whom nobody knows.
func (q *request) enteredEditor() *editorData {
	form := q.r.PostFormValue
	d := &editorData{
		ID: q.r.PathValue("id"), Version: form("version"), Status: form("stored_status"),
		Name: form("stored_name"),
		YAML: lines(form("yaml")), Base: lines(form("base")), Opened: lines(form("opened")),
		Path: q.appPath("timers", "new"),
		Form: make(map[string]string), Simple: q.r.PostForm.Has("url"), Unsaved: true,
	}
	if d.ID != "" {
		d.Path = q.appPath("timers", d.ID, "edit")
	}
	d.keep(q.r.PostForm, nil)
	return d
}

// readEditor reads what the viewer has entered in the form and as YAML, and merges both. It returns
// no document if the YAML cannot be read, or the sides cannot be merged; then both stay as they are.
func (q *request) readEditor() (*editorData, *document) {
	d := q.enteredEditor()
	base, err := parseDocument(d.Base)
	if err != nil { // no page sends that
		base = &document{&yaml.Node{Kind: yaml.MappingNode}}
	}
	d.fill(base)
	doc, err := parseDocument(d.YAML)
	if err != nil {
		d.Broken = err.Error()
		d.keep(q.r.PostForm, nil)
		return d, nil
	}
	before := doc.String()
	opened, err := parseDocument(d.Opened)
	if err != nil { // no page sends that
		opened = &document{&yaml.Node{Kind: yaml.MappingNode}}
	}
	if refused := doc.merge(q.r.PostForm, base, opened); len(refused) > 0 {
		d.keep(q.r.PostForm, nil)
		d.refuseSides(q.views.texts, refused)
		return d, nil
	}
	if d.ID != "" { // a timer keeps its name
		doc.set(yamltext.Text(d.Name), "name")
	}
	d.Base = doc.String()
	if d.Base != before {
		d.YAML = d.Base
	}
	d.fill(doc)
	d.keep(q.r.PostForm, doc)
	return d, doc
}

// keep shows in the form what the viewer has entered there, where it means what a document has (nil:
// in any case): a field that changes by itself disturbs them.
func (d *editorData) keep(form url.Values, doc *document) {
	for _, f := range formFields {
		now := lines(form.Get(f.Name))
		if form.Has(f.Name) && (doc == nil || !f.belongs(doc.text("schedule", "kind")) ||
			f.same(now, shown(d.Form[f.Name]))) {
			d.Form[f.Name] = now
		}
	}
}

// refuseSides says at their fields why the sides cannot be merged.
func (d *editorData) refuseSides(t texts, refused []apart) {
	d.Refused = &apiError{Status: http.StatusUnprocessableEntity, Detail: t.get("sides_apart")}
	d.Errors = make(map[string][]string)
	for _, r := range refused {
		d.Errors[r.Field] = append(d.Errors[r.Field], t.get(r.Text))
	}
}

// tryDefinition has the API check a definition without writing it.
func (q *request) tryDefinition(d *editorData, doc *document) error {
	var tried struct {
		timerBody

		Upcoming []string
		Warnings []struct{ Message string }
	}
	if _, err := q.sendDefinition(d, doc, true, &tried); err != nil {
		return q.refuseDefinition(d, doc, err)
	}
	d.Upcoming, d.Warnings = tried.Upcoming, tried.Warnings
	d.Schedule, d.Zone = tried.Schedule, tried.Schedule.TimeZone
	return nil
}

// brokenYAMLError is the error about YAML that cannot be sent.
type brokenYAMLError struct{ error }

// sendDefinition creates the timer, or replaces the version that the viewer has seen. It returns the
// status of the answer.
//
// A status changes no version: somebody else may have set another one since the viewer opened the
// editor, and If-Match does not notice. So a status that the viewer has not changed is not sent, and
// that of the timer stays.
func (q *request) sendDefinition(
	d *editorData, doc *document, dry bool, out any,
) (status int, err error) {
	var without []string
	if d.ID != "" && d.Status != "" && doc.text("status") == d.Status {
		without = []string{"status"}
	}
	body, err := doc.body(q.app, without...)
	if err != nil {
		return 0, brokenYAMLError{err}
	}
	method, query := http.MethodPost, make(url.Values)
	if d.ID != "" {
		method = http.MethodPut
		query.Set("if_id", d.ID) // another timer may have taken the name
	}
	if dry {
		query.Set("dry_run", "true")
	}
	version := ""
	if d.Version != "" {
		version = strconv.Quote(d.Version)
	}
	return q.with("If-Match", version).
		exchange(method, "/timers?"+query.Encode(), "application/json", body, out)
}

// refuseDefinition notes an error about what the viewer has entered, and returns any other. If
// somebody else has changed the timer, it shows their definition; saving again replaces that one. A
// status that the viewer has not changed becomes theirs, as saving again would leave it.
func (q *request) refuseDefinition(d *editorData, mine *document, err error) error {
	if broken, ok := errors.AsType[brokenYAMLError](err); ok {
		d.Broken = broken.Error()
		return nil
	}
	if d.Refused = refusedInput(err); d.Refused == nil {
		return err
	}
	d.Errors, d.Others = errorsOf(d.Refused)
	if d.Refused.Status != http.StatusPreconditionFailed {
		return nil
	}
	t, doc, err := q.readDefinition(d.ID)
	if err != nil {
		return err
	}
	// The API's error is about a header, which the viewer has not sent.
	d.Refused.Detail, d.Others = q.views.texts.get("changed_meanwhile", t.Version), nil
	d.Theirs, d.Version = doc.String(), strconv.Itoa(t.Version)
	if d.Synced { // the viewer has not seen it, and goes on typing
		return nil
	}
	status := doc.text("status")
	if mine.text("status") == d.Status {
		mine.change(formField{path: []string{"status"}}, status)
		d.Base = mine.String()
		d.YAML, d.Form["status"] = d.Base, status
	}
	d.Status = status
	return nil
}

// syncEditor answers what the viewer types: both sides, the errors and the next instants.
func syncEditor(q *request) error {
	if err := q.needWrite(); err != nil {
		d := q.enteredEditor()
		d.Synced = true
		if !refusedBeside(err, &d.Refused) {
			return err
		}
		return q.showPart("editor", "synced", d)
	}
	d, doc := q.readEditor()
	d.Synced = true
	if doc != nil {
		version := d.Version
		if err := q.tryDefinition(d, doc); err != nil {
			if !refusedBeside(err, &d.Refused) {
				return err
			}
		}
		if d.Theirs != "" {
			d.Version = version // the viewer decides when they save
		}
	}
	return q.showPart("editor", "synced", d)
}

// refusedBeside reports whether an error is shown beside the editor, whose page stays, and sets where
// it is shown. A viewer whom the API does not know is sent to sign in instead.
func refusedBeside(err error, shown **apiError) bool {
	var refused *apiError
	if !errors.As(err, &refused) || refused.Status == http.StatusUnauthorized {
		return false
	}
	*shown = refused
	return true
}

// saveTimer creates or replaces a timer.
func saveTimer(q *request) error {
	if err := q.needWrite(); err != nil { // before the YAML is read, which costs more
		d := q.enteredEditor()
		if !refusedBeside(err, &d.Refused) {
			return err
		}
		return q.render(d.Refused.Status, "editor", d)
	}
	d, doc := q.readEditor()
	if doc == nil {
		return q.render(http.StatusUnprocessableEntity, "editor", d)
	}
	if q.r.PostFormValue("do") == "test" {
		if err := q.testDefinition(d, doc); err != nil {
			return err
		}
		return q.show("editor", d)
	}
	if q.r.PostFormValue("do") == "preview" {
		if err := q.tryDefinition(d, doc); err != nil {
			return q.keepText(d, err)
		}
		return q.show("editor", d)
	}
	var saved timerBody
	status, err := q.sendDefinition(d, doc, false, &saved)
	if err != nil {
		if err := q.refuseDefinition(d, doc, err); err != nil {
			return q.keepText(d, err)
		}
		status = http.StatusUnprocessableEntity
		if d.Refused != nil {
			status = d.Refused.Status
		}
		return q.render(status, "editor", d)
	}
	did := "save"
	if d.ID == "" && status == http.StatusOK { // the same timer was there
		did = "none"
	}
	q.did(q.appPath("timers", saved.ID), did)
	return nil
}

// keepText shows the editor with an error that is not about what the viewer has entered, so that this
// is not lost. If somebody has deleted the timer, saving again makes a new one.
func (q *request) keepText(d *editorData, err error) error {
	if !refusedBeside(err, &d.Refused) {
		return err
	}
	status := d.Refused.Status
	if d.ID != "" && status == http.StatusNotFound {
		d.ID, d.Name, d.Version, d.Status, d.Gone, d.Refused = "", "", "", "", true, nil
		d.Path = q.appPath("timers", "new")
	}
	return q.render(status, "editor", d)
}

// testDefinition calls the target of a definition once, and keeps the answer or why there is none.
func (q *request) testDefinition(d *editorData, doc *document) error {
	var tested struct{ Calls []testedCall }
	body, err := doc.body(q.app)
	if err == nil {
		err = q.do(http.MethodPost, "/timers:test", body, &tested)
	} else {
		d.TestRefused, err = &apiError{Detail: err.Error()}, nil
	}
	if err != nil && !refusedBeside(err, &d.TestRefused) {
		return err
	}
	d.Calls = tested.Calls
	return nil
}

// testTimer answers the button of the test call.
func testTimer(q *request) error {
	if err := q.needWrite(); err != nil {
		d := q.enteredEditor()
		if !refusedBeside(err, &d.TestRefused) {
			return err
		}
		return q.showPart("editor", "tested", d)
	}
	d, doc := q.readEditor()
	if doc == nil {
		d.TestRefused = d.Refused
		if d.Broken != "" {
			d.TestRefused = &apiError{Detail: d.Broken}
		}
	} else if err := q.testDefinition(d, doc); err != nil {
		return err
	}
	return q.showPart("editor", "tested", d)
}
