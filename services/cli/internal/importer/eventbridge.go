package importer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/zone"
)

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
