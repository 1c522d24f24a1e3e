package ui

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
)

// jobFields are the fields of the form that starts a job. The page that asks for confirmation sends
// them again.
var jobFields = []string{
	"labels", "name_contains", "status", "target_host", "action", "reason", "until", "set_labels",
	"remove_labels",
}

type jobData struct {
	Start   jobStart
	Form    map[string]string
	Key     string // makes a repeated confirmation start one job
	Job     jobBody
	Refused *apiError
	Back    string // the list whose filter selects the timers
}

// readJob reads the form that starts a job. Labels are separated by commas. An item that is no label
// is refused: a viewer would not see what became of it.
func readJob(form url.Values, t texts) *jobData {
	f := filterBody{
		Labels: form.Get("labels"), NameContains: form.Get("name_contains"),
		Status: form.Get("status"), TargetHost: form.Get("target_host"),
	}
	d := &jobData{
		Start: jobStart{
			Action: form.Get("action"), Reason: form.Get("reason"),
			Until: instantOf(form.Get("until")),
		},
		Form: make(map[string]string), Key: form.Get("key"),
	}
	for _, name := range jobFields {
		d.Form[name] = form.Get(name)
	}
	if f == (filterBody{}) {
		d.Start.All = true
	} else {
		d.Start.Filter = &f
	}
	var bad []fieldError
	for _, item := range itemsOf(form.Get("set_labels")) {
		name, value, found := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		if _, twice := d.Start.SetLabels[name]; !found || name == "" {
			bad = append(bad, fieldError{t.get("set_labels"), t.get("not_a_label", item)})
		} else if twice {
			bad = append(bad, fieldError{t.get("set_labels"), t.get("label_twice")})
		}
		if d.Start.SetLabels == nil {
			d.Start.SetLabels = make(map[string]string)
		}
		d.Start.SetLabels[name] = strings.TrimSpace(value)
	}
	for _, item := range itemsOf(form.Get("remove_labels")) {
		if strings.Contains(item, "=") {
			bad = append(bad, fieldError{t.get("remove_labels"), t.get("not_a_label_name", item)})
		}
		d.Start.RemoveLabels = append(d.Start.RemoveLabels, item)
	}
	if len(bad) > 0 {
		d.Refused = &apiError{
			Status: http.StatusUnprocessableEntity, Errors: bad,
			Detail: bad[0].Location + ": " + bad[0].Message,
		}
	}
	return d
}

// itemsOf returns the items of a list that commas separate.
func itemsOf(list string) (items []string) {
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// startJob shows what a job would change. It starts the job if the viewer has confirmed that.
func startJob(q *request) error {
	confirmed := q.r.PostFormValue("confirmed") == "yes" // it also reads the form
	d := readJob(q.r.PostForm, q.views.texts)
	path := "/apps" + pathOf(q.app, "jobs")
	key := d.Key
	if !confirmed {
		path += "?dry_run=true"
		key, d.Key = "", rand.Text()
	}
	if d.Refused != nil { // a viewer who may not see the app is refused, too
		if err := q.get(
			"/timers",
			url.Values{"app": {q.app}, "limit": {"1"}},
			&struct{}{},
		); err != nil {
			return err
		}
	} else {
		err := q.with("Idempotency-Key", key).do(http.MethodPost, path, &d.Start, &d.Job)
		if d.Refused = refusedInput(err); err != nil && d.Refused == nil {
			return err
		}
	}
	d.Back = q.appPath("timers")
	if f := d.Start.Filter; f != nil {
		d.Back += "?" + url.Values{
			"labels": {f.Labels}, "name_contains": {f.NameContains}, "status": {f.Status},
			"target_host": {f.TargetHost},
		}.Encode()
	}
	if confirmed && d.Refused == nil {
		q.redirect(q.appPath("jobs", d.Job.ID))
		return nil
	}
	return q.show("bulk", d)
}

// showJob shows the progress of a job.
func showJob(q *request) error {
	d := new(jobData)
	if err := q.get("/apps"+pathOf(q.app, "jobs", q.r.PathValue("id")), nil, &d.Job); err != nil {
		return err
	}
	return q.show("job", d)
}

func cancelJob(q *request) error {
	id := q.r.PathValue("id")
	path := "/apps" + pathOf(q.app, "jobs", id, "cancel")
	if err := q.do(http.MethodPost, path, nil, nil); err != nil {
		return err
	}
	q.redirect(q.appPath("jobs", id))
	return nil
}
