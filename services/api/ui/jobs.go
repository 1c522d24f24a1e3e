package ui

import (
	"net/http"
)

type jobData struct {
	Start   jobStart
	Job     jobBody
	Refused *apiError
}

// startJob shows what a job would change. It starts the job if the viewer has confirmed that.
func startJob(q *request) error {
	form := q.r.PostFormValue
	f := filterBody{
		Labels: form("labels"), NameContains: form("name_contains"), Status: form("status"),
		TargetHost: form("target_host"),
	}
	d := &jobData{Start: jobStart{Action: form("action"), Reason: form("reason")}}
	if f == (filterBody{}) {
		d.Start.All = true
	} else {
		d.Start.Filter = &f
	}
	path := "/apps" + pathOf(q.app, "jobs")
	confirmed := form("confirmed") == "yes"
	if !confirmed {
		path += "?dry_run=true"
	}
	if err := q.do(http.MethodPost, path, &d.Start, &d.Job); err != nil {
		if d.Refused = refusedInput(err); d.Refused == nil {
			return err
		}
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
