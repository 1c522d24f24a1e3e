package importer

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// cronJob are the fields of a Kubernetes CronJob (batch/v1) that matter here.
type cronJob struct {
	Kind     string    `json:"kind"`
	Items    []cronJob `json:"items"`
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Schedule                string `json:"schedule"`
		TimeZone                string `json:"timeZone"`
		ConcurrencyPolicy       string `json:"concurrencyPolicy"`
		Suspend                 bool   `json:"suspend"`
		StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds"`
		JobTemplate             struct {
			Spec struct {
				BackoffLimit          *int   `json:"backoffLimit"`
				ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// kubernetes converts CronJobs, as files or as `kubectl get cronjobs -o yaml` prints them.
func kubernetes(data []byte, opts Options) ([]Result, error) {
	var all []Result
	for i, text := range yamltext.Split(data, "") {
		if _, err := yamltext.Decode(text); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		text, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if bytes.Equal(text, []byte("null")) {
			continue
		}
		var job cronJob
		if err := json.Unmarshal(text, &job); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		jobs := job.Items
		if len(jobs) == 0 {
			jobs = []cronJob{job}
		}
		for j := range jobs {
			all = append(all, fromCronJob(opts, &jobs[j], i+1))
		}
	}
	return all, nil
}

func fromCronJob(opts Options, job *cronJob, document int) Result {
	e := newEntry(opts, place("document", document, job.Metadata.Name))
	if job.Kind != "CronJob" {
		return e.refusef("a %s is no CronJob", job.Kind)
	}
	e.cron(job.Spec.Schedule, job.Spec.TimeZone, "kube-controller-manager")
	e.labels(job.Metadata.Labels)
	policy := "allow"
	switch job.Spec.ConcurrencyPolicy {
	case "Forbid":
		policy = "skip"
	case "Replace":
		policy = "cancel_previous"
	}
	if policy != "allow" {
		e.body["concurrency"] = map[string]any{"policy": policy}
		e.notef(
			"concurrencyPolicy %s is concurrency %s, of calls",
			job.Spec.ConcurrencyPolicy,
			policy,
		)
	}
	if job.Spec.Suspend {
		e.body["status"] = "inactive"
	}
	if s := job.Spec.StartingDeadlineSeconds; s != nil {
		e.field("misfire")["policy"] = "fire_once"
		e.catchUp("startingDeadlineSeconds", seconds(*s))
	}
	if n := job.Spec.JobTemplate.Spec.BackoffLimit; n != nil {
		e.attempts("backoffLimit", *n+1)
	}
	if job.Spec.JobTemplate.Spec.ActiveDeadlineSeconds != nil {
		e.notef("activeDeadlineSeconds is left out: let what the URL starts end in time")
	}
	e.notef("its containers are not run: the timer calls a URL, which has to start the work")
	return e.finish("", job.Metadata.Name)
}
