package importer

import (
	"bytes"
	"fmt"
	"strings"
)

// xxlRow is a job of XXL-JOB, as its list of jobs shows it.
type xxlRow struct {
	ID              int    `json:"id"`
	Description     string `json:"jobDesc"`
	Type            string `json:"scheduleType"`
	Conf            string `json:"scheduleConf"`
	Cron            string `json:"jobCron"` // before version 2.3
	Misfire         string `json:"misfireStrategy"`
	Handler         string `json:"executorHandler"`
	Param           string `json:"executorParam"`
	Block           string `json:"executorBlockStrategy"`
	Route           string `json:"executorRouteStrategy"`
	Timeout         int64  `json:"executorTimeout"`
	Retries         int    `json:"executorFailRetryCount"`
	Children        string `json:"childJobId"`
	Glue            string `json:"glueType"`
	Status          int    `json:"triggerStatus"`
	ExecutorAddress string `json:"executorAddress"`
}

// xxlJob converts jobs of XXL-JOB.
func xxlJob(data []byte, opts Options) ([]Result, error) {
	rows, err := decode[xxlRow](data, "data", "content")
	if err != nil {
		return nil, err
	}
	if err := allPages(data, len(rows)); err != nil {
		return nil, err
	}
	var all []Result
	for i := range rows {
		all = append(all, fromXXL(opts, &rows[i], i+1))
	}
	return all, nil
}

// allPages refuses answers of /jobinfo/pageList that lack jobs: by default a page has ten. A file may
// have all pages, one after the other.
func allPages(data []byte, jobs int) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return nil
	}
	pages, err := decode[struct {
		Total int `json:"recordsTotal"`
	}](data)
	if err != nil {
		return err
	}
	for _, page := range pages {
		if page.Total > jobs {
			return fmt.Errorf(
				"recordsTotal: expected all %d jobs, found %d: ask /jobinfo/pageList for all, with "+
					"start=0 and length=%[1]d, or leave recordsTotal out to import these alone",
				page.Total,
				jobs,
			)
		}
	}
	return nil
}

func fromXXL(opts Options, r *xxlRow, n int) Result {
	e := newEntry(opts, fmt.Sprintf("entry %d, job %d", n, r.ID))
	switch {
	case r.Type == "CRON" || r.Type == "" && r.Cron != "":
		spec, err := quartz(r.Conf + r.Cron)
		if err != nil {
			return e.refusef("%v", err)
		}
		e.cron(spec, "", "the server of XXL-JOB")
	case r.Type == "FIX_RATE":
		e.body["schedule"] = map[string]any{"kind": "interval", "every": r.Conf + "s"}
	case r.Type == "FIX_DELAY":
		e.body["schedule"] = map[string]any{"kind": "fixed_delay", "every": r.Conf + "s"}
	default:
		return e.refusef("scheduleType %s is no schedule", r.Type)
	}
	if r.Status != 1 {
		e.body["status"] = "inactive"
	}
	switch r.Misfire {
	case "DO_NOTHING":
		e.body["misfire"] = map[string]any{"policy": "skip"}
	case "FIRE_ONCE_NOW":
		e.body["misfire"] = map[string]any{"policy": "fire_once"}
	}
	switch r.Block {
	case "DISCARD_LATER":
		e.body["concurrency"] = map[string]any{"policy": "skip"}
	case "COVER_EARLY":
		e.body["concurrency"] = map[string]any{"policy": "cancel_previous"}
	case "SERIAL_EXECUTION":
		e.body["concurrency"] = map[string]any{"policy": "queue_all"}
	}
	e.attempts("executorFailRetryCount", max(r.Retries, 0)+1)
	if r.Timeout > 0 {
		e.timeout("executorTimeout", seconds(r.Timeout))
	}
	if r.Param != "" {
		e.field("target")["method"] = "POST"
		e.setBody(r.Param)
	}
	if r.Handler != "" {
		e.labels(map[string]string{"handler": r.Handler})
	}
	if strings.HasPrefix(r.Glue, "GLUE") {
		e.notef("its script (%s) is not run: the timer calls a URL, which has to run it", r.Glue)
	}
	if r.Children != "" {
		e.notef("childJobId %s is left out: there are no chains of timers", r.Children)
	}
	if r.Route == "SHARDING_BROADCAST" {
		e.notef("it ran on every executor at once; the timer calls one URL")
	}
	name := r.Description
	if name == "" {
		name = r.Handler
	}
	return e.finish("", name)
}
