package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"

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
			Spec jobSpec `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// defaultBackoffLimit is how often Kubernetes repeats a Job that does not say it.
const defaultBackoffLimit = 6

// jobSpec are the fields of the Job that a CronJob creates, less those about its pods.
type jobSpec struct {
	BackoffLimit          *int   `json:"backoffLimit"`
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds"`
	Parallelism           *int   `json:"parallelism"`
	Completions           *int   `json:"completions"`
	CompletionMode        string `json:"completionMode"`
	Suspend               bool   `json:"suspend"`
	BackoffLimitPerIndex  any    `json:"backoffLimitPerIndex"`
	PodFailurePolicy      any    `json:"podFailurePolicy"`
	SuccessPolicy         any    `json:"successPolicy"`
}

// zoneOfSchedule matches a schedule that begins with its time zone.
var zoneOfSchedule = regexp.MustCompile(`^\s*(?:CRON_)?TZ=(\S*)\s+(\S.*)$`)

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
	refuseEqualNames(all)
	return all, nil
}

// refuseEqualNames leaves out entries whose names are equal. Numbers would follow the order of the
// input, and another order would give a timer the schedule of another job.
func refuseEqualNames(all []Result) {
	entries := make(map[string]int)
	for i := range all {
		if m := all[i].Manifest; m != nil {
			entries[m.Name]++
		}
	}
	for i := range all {
		r := &all[i]
		if m := r.Manifest; m != nil && entries[m.Name] > 1 {
			r.Manifest = nil
			r.Refused = append(r.Refused, fmt.Sprintf(
				"%d entries have the name %s: set metadata.namespace of each, as their order "+
					"would decide which timer is whose",
				entries[m.Name], m.Name,
			))
		}
	}
}

// timerName returns the name of a job's timer. Two namespaces may have jobs of one name, so the
// namespace is part of it, whatever else the input holds: the next import finds the same timer. A
// namespace has no dots, so no two jobs have one name. A file without a namespace gives the name
// alone.
func (job *cronJob) timerName() string {
	if job.Metadata.Namespace == "" || job.Metadata.Name == "" {
		return job.Metadata.Name
	}
	return job.Metadata.Namespace + "." + job.Metadata.Name
}

// schedule returns the cron expression of a job and its zone, which the expression may begin with, as
// old manifests have it. With timeZone Kubernetes refuses that, and it stays for the check to refuse.
func (job *cronJob) schedule() (spec, zone string) {
	spec, zone = job.Spec.Schedule, job.Spec.TimeZone
	m := zoneOfSchedule.FindStringSubmatch(spec)
	if m == nil || zone != "" {
		return spec, zone
	}
	return m[2], cmp.Or(m[1], "UTC") // as Kubernetes reads an empty one
}

func fromCronJob(opts Options, job *cronJob, document int) Result {
	name := job.timerName()
	e := newEntry(opts, place("document", document, name))
	if job.Kind != "CronJob" {
		return e.refusef("a %s is no CronJob", job.Kind)
	}
	spec, zone := job.schedule()
	e.cron(spec, zone, "kube-controller-manager")
	e.followClock() // as Kubernetes does
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
	e.jobSpec(&job.Spec.JobTemplate.Spec)
	e.notef("its containers are not run: the timer calls a URL, which has to start the work")
	return e.finish("", name)
}

// jobSpec sets what the Job says of retries, and notes what a call cannot carry over.
func (e *entry) jobSpec(s *jobSpec) {
	switch {
	case s.BackoffLimit != nil:
		e.attempts("backoffLimit", *s.BackoffLimit+1)
	case s.BackoffLimitPerIndex == nil:
		e.attempts("backoffLimit", defaultBackoffLimit+1)
	}
	if s.ActiveDeadlineSeconds != nil {
		e.notef("activeDeadlineSeconds is left out: let what the URL starts end in time")
	}
	if n := s.Parallelism; n != nil && *n != 1 {
		e.notef("parallelism %d is left out: the timer makes one call, which has to start all", *n)
	}
	if n := s.Completions; n != nil && *n != 1 {
		e.notef("completions %d is left out: the timer makes one call, which has to start all", *n)
	}
	if s.Suspend {
		e.body["status"] = "inactive"
		e.notef("suspend of its jobTemplate makes the timer inactive: its jobs never ran")
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"completionMode " + s.CompletionMode, s.CompletionMode == "Indexed"},
		{"backoffLimitPerIndex", s.BackoffLimitPerIndex != nil},
		{"podFailurePolicy", s.PodFailurePolicy != nil},
		{"successPolicy", s.SuccessPolicy != nil},
	} {
		if field.set {
			e.notef("%s is left out: a call has no pods", field.name)
		}
	}
}
