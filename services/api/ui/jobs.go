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

// readJob reads the form that starts a job. Labels are separated by commas.
func readJob(form url.Values) *jobData {
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
	for item := range strings.SplitSeq(form.Get("set_labels"), ",") {
		if name, value, _ := strings.Cut(strings.TrimSpace(item), "="); name != "" {
			if d.Start.SetLabels == nil {
				d.Start.SetLabels = make(map[string]string)
			}
			d.Start.SetLabels[name] = value
		}
	}
	for item := range strings.SplitSeq(form.Get("remove_labels"), ",") {
		if item = strings.TrimSpace(item); item != "" {
			d.Start.RemoveLabels = append(d.Start.RemoveLabels, item)
		}
	}
	return d
}

// startJob shows what a job would change. It starts the job if the viewer has confirmed that.
func startJob(q *request) error {
	confirmed := q.r.PostFormValue("confirmed") == "yes" // it also reads the form
	d := readJob(q.r.PostForm)
	path := "/apps" + pathOf(q.app, "jobs")
	key := d.Key
	if !confirmed {
		path += "?dry_run=true"
		key, d.Key = "", rand.Text()
	}
	err := q.with("Idempotency-Key", key).do(http.MethodPost, path, &d.Start, &d.Job)
	if err != nil {
		if d.Refused = refusedInput(err); d.Refused == nil {
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
