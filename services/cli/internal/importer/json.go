package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/zone"
)

// decode reads entries: a JSON array, JSON objects one after the other (NDJSON), or an object with
// a list in one of the fields.
func decode[T any](data []byte, fields ...string) ([]T, error) {
	data = bytes.TrimSpace(data)
	if bytes.HasPrefix(data, []byte("[")) {
		var all []T
		if err := json.Unmarshal(data, &all); err != nil {
			return nil, fmt.Errorf("expected a list of objects: %w", err)
		}
		return all, nil
	}
	var all []T
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("expected JSON: %w", err)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, fmt.Errorf("expected objects: %w", err)
		}
		inner := raw
		for _, field := range fields {
			if list, ok := object[field]; ok && bytes.HasPrefix(list, []byte("[")) {
				inner = list
			}
		}
		if bytes.HasPrefix(inner, []byte("[")) {
			var some []T
			if err := json.Unmarshal(inner, &some); err != nil {
				return nil, fmt.Errorf("expected a list of objects: %w", err)
			}
			all = append(all, some...)
			continue
		}
		var one T
		if err := json.Unmarshal(inner, &one); err != nil {
			return nil, fmt.Errorf("expected objects: %w", err)
		}
		all = append(all, one)
	}
}

// xtimerRow is a timer of xTimer, as its API shows it or its table keeps it.
type xtimerRow struct {
	App    string `json:"app"`
	Name   string `json:"name"`
	Status int    `json:"status"` // 2 is enabled
	Cron   string `json:"cron"`

	Param *xtimerCall     `json:"notifyHTTPParam"`
	Row   json.RawMessage `json:"notify_http_param"` // of the table: an object, or one as text
}

type xtimerCall struct {
	URL    string              `json:"url"`
	Method string              `json:"method"`
	Header map[string][]string `json:"header"`
	Body   string              `json:"body"`
}

// xtimer converts timers of xTimer.
func xtimer(data []byte, opts Options) ([]Result, error) {
	const enabled = 2
	rows, err := decode[xtimerRow](data, "data", "timers")
	if err != nil {
		return nil, err
	}
	var all []Result
	for i := range rows {
		r := &rows[i]
		e := newEntry(opts, fmt.Sprintf("entry %d, %s", i+1, r.Name))
		call, err := r.call()
		if err != nil {
			all = append(all, e.refusef("notify_http_param: %v", err))
			continue
		}
		if r.Status != enabled {
			e.body["status"] = "inactive"
		}
		e.cron(r.Cron, "")
		e.url = call.URL
		target := map[string]any{"method": strings.ToUpper(call.Method)}
		if call.Method == "" {
			target["method"] = "POST"
		}
		if call.Body != "" {
			target["body"] = call.Body
		}
		if len(call.Header) > 0 {
			target["headers"] = call.Header
		}
		e.body["target"] = target
		all = append(all, e.finish(r.App, r.Name))
	}
	return all, nil
}

func (r *xtimerRow) call() (xtimerCall, error) {
	var call xtimerCall
	if r.Param != nil {
		return *r.Param, nil
	}
	raw := []byte(r.Row)
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	if len(raw) == 0 {
		return call, nil
	}
	err := json.Unmarshal(raw, &call)
	return call, err //nolint:wrapcheck // the caller names the field
}

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
	Timeout         int    `json:"executorTimeout"`
	Retries         int    `json:"executorFailRetryCount"`
	Children        string `json:"childJobId"`
	Status          int    `json:"triggerStatus"`
	ExecutorAddress string `json:"executorAddress"`
}

// xxlJob converts jobs of XXL-JOB.
func xxlJob(data []byte, opts Options) ([]Result, error) {
	rows, err := decode[xxlRow](data, "data", "content")
	if err != nil {
		return nil, err
	}
	var all []Result
	for i := range rows {
		all = append(all, fromXXL(opts, &rows[i], i+1))
	}
	return all, nil
}

func fromXXL(opts Options, r *xxlRow, n int) Result {
	e := newEntry(opts, fmt.Sprintf("entry %d, job %d", n, r.ID))
	switch {
	case r.Type == "CRON" || r.Type == "" && r.Cron != "":
		spec, err := quartz(r.Conf + r.Cron)
		if err != nil {
			return e.refusef("%v", err)
		}
		e.cron(spec, "")
		if opts.Zone == "" {
			e.notef(
				"XXL-JOB used the zone of its server: give it by --tz if it was not the deployment's default",
			)
		}
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
	retry := map[string]any{"attempts": r.Retries + 1}
	if r.Timeout > 0 {
		retry["timeout"] = fmt.Sprintf("%ds", r.Timeout)
	}
	e.body["retry"] = retry
	if r.Param != "" {
		e.body["target"] = map[string]any{"method": "POST", "body": r.Param}
	}
	e.body["labels"] = map[string]any{"handler": r.Handler}
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

// eventBridgeSchedule is a schedule of Amazon EventBridge Scheduler, as `aws scheduler
// get-schedule` prints it.
type eventBridgeSchedule struct {
	Name       string `json:"Name"`
	GroupName  string `json:"GroupName"`
	Expression string `json:"ScheduleExpression"`
	Zone       string `json:"ScheduleExpressionTimezone"`
	State      string `json:"State"`
	StartDate  string `json:"StartDate"`
	EndDate    string `json:"EndDate"`
	Window     struct {
		Mode    string `json:"Mode"`
		Minutes int    `json:"MaximumWindowInMinutes"`
	} `json:"FlexibleTimeWindow"`
	Target struct {
		ARN   string `json:"Arn"`
		Input string `json:"Input"`
		Retry struct {
			Attempts *int `json:"MaximumRetryAttempts"`
		} `json:"RetryPolicy"`
	} `json:"Target"`
}

// eventBridge converts schedules of Amazon EventBridge Scheduler.
func eventBridge(data []byte, opts Options) ([]Result, error) {
	rows, err := decode[eventBridgeSchedule](data, "Schedules")
	if err != nil {
		return nil, err
	}
	var all []Result
	for i := range rows {
		all = append(all, fromEventBridge(opts, &rows[i], i+1))
	}
	return all, nil
}

var rate = regexp.MustCompile(`^rate\((\d+) (minute|hour|day)s?\)$`)

func fromEventBridge(opts Options, r *eventBridgeSchedule, n int) Result {
	e := newEntry(opts, fmt.Sprintf("entry %d, %s", n, r.Name))
	if err := e.awsSchedule(r.Expression, r.Zone); err != nil {
		return e.refusef("%v", err)
	}
	s := e.body.Object("schedule")
	for field, text := range map[string]string{"start_at": r.StartDate, "end_at": r.EndDate} {
		if text != "" {
			s[field] = text
		}
	}
	if r.Window.Mode == "FLEXIBLE" {
		s["jitter"] = fmt.Sprintf("%dm", r.Window.Minutes)
		e.notef("the flexible time window is jitter")
	}
	if r.State == "DISABLED" {
		e.body["status"] = "inactive"
	}
	if n := r.Target.Retry.Attempts; n != nil {
		e.body["retry"] = map[string]any{"attempts": *n + 1}
	}
	if r.Target.Input != "" {
		e.body["target"] = map[string]any{"method": "POST", "body": r.Target.Input}
	}
	if r.Target.ARN != "" {
		e.notef("its target %s is not called", r.Target.ARN)
	}
	return e.finish("", r.Name)
}

// awsSchedule sets the schedule to an expression of EventBridge: cron(…), rate(…) or at(…).
func (e *entry) awsSchedule(text, name string) error {
	const fields, dayOfWeek = 6, 4
	if m := rate.FindStringSubmatch(text); m != nil {
		unit := map[string]string{"minute": "m", "hour": "h", "day": "d"}[m[2]]
		e.body["schedule"] = map[string]any{"kind": "interval", "every": m[1] + unit}
		return nil
	}
	inner, ok := strings.CutSuffix(text, ")")
	if spec, cron := strings.CutPrefix(inner, "cron("); ok && cron {
		f := strings.Fields(spec)
		if len(f) != fields {
			return fmt.Errorf("expected six fields in %s", text)
		}
		f[dayOfWeek] = quartzDays(f[dayOfWeek])
		e.cron("0 "+strings.Join(f, " "), name)
		return nil
	}
	if at, one := strings.CutPrefix(inner, "at("); ok && one {
		place := time.UTC
		if name != "" {
			table, err := zone.Load(name)
			if err != nil {
				return fmt.Errorf("time zone %s: %w", strconv.Quote(name), err)
			}
			place = table.Location()
		}
		instant, err := time.ParseInLocation("2006-01-02T15:04:05", at, place)
		if err != nil {
			return fmt.Errorf("expected at(2030-01-31T09:00:00), found %s", text)
		}
		e.body["schedule"] = map[string]any{"kind": "at", "at": instant.UTC().Format(time.RFC3339)}
		return nil
	}
	return fmt.Errorf("expected cron(…), rate(…) or at(…), found %q", text)
}
