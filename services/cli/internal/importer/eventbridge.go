package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// eventBridgeSchedule is a schedule of Amazon EventBridge Scheduler, as `aws scheduler
// get-schedule` prints it.
type eventBridgeSchedule struct {
	Name       string `json:"Name"`
	ARN        string `json:"Arn"`
	GroupName  string `json:"GroupName"`
	Expression string `json:"ScheduleExpression"`
	Zone       string `json:"ScheduleExpressionTimezone"`
	State      string `json:"State"`
	StartDate  date   `json:"StartDate"`
	EndDate    date   `json:"EndDate"`
	Completion string `json:"ActionAfterCompletion"`
	Window     struct {
		Mode    string `json:"Mode"`
		Minutes int    `json:"MaximumWindowInMinutes"`
	} `json:"FlexibleTimeWindow"`
	Target struct {
		ARN         string `json:"Arn"`
		Input       string `json:"Input"`
		DeadLetters struct {
			ARN string `json:"Arn"`
		} `json:"DeadLetterConfig"`
		Retry struct {
			Attempts *int   `json:"MaximumRetryAttempts"`
			Seconds  *int64 `json:"MaximumEventAgeInSeconds"`
		} `json:"RetryPolicy"`
	} `json:"Target"`
}

// date is an instant as text, or as seconds since 1970, which older versions of aws print.
type date string

// UnmarshalJSON reads both forms.
func (d *date) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseFloat(string(data), 64); err == nil {
		*d = date(time.UnixMilli(int64(n * 1000)).UTC().Format(time.RFC3339Nano))
		return nil
	}
	return json.Unmarshal(data, (*string)(d)) //nolint:wrapcheck // the caller is encoding/json
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
	e := newEntry(opts, place("entry", n, r.Name))
	if err := e.awsSchedule(r.Expression, r.Zone); err != nil {
		return e.refusef("%v", err)
	}
	e.window(r.StartDate, r.EndDate)
	s := e.body.Object("schedule")
	if r.Window.Mode == "FLEXIBLE" {
		s["jitter"] = fmt.Sprintf("%dm", r.Window.Minutes)
		e.notef("the flexible time window is jitter")
	}
	if r.State == "DISABLED" {
		e.body["status"] = "inactive"
	}
	if n := r.Target.Retry.Attempts; n != nil {
		e.attempts("MaximumRetryAttempts", *n+1)
	}
	if n := r.Target.Retry.Seconds; n != nil {
		e.field("retry")["give_up_after"] = seconds(*n).String()
	}
	if r.Target.Input != "" {
		e.awsInput(r.Target.Input, r.ARN)
	}
	if r.Target.DeadLetters.ARN != "" {
		e.notef(
			"DeadLetterConfig is left out: Carillon keeps fires that failed for good as dead letters, " +
				"which carillon dead list shows",
		)
	}
	if r.Completion == "DELETE" {
		e.notef(
			"ActionAfterCompletion DELETE is left out: a timer that has ended stays until it is deleted",
		)
	}
	if r.GroupName != "" && r.GroupName != "default" {
		e.labels(map[string]string{"group": r.GroupName})
	}
	if r.Target.ARN != "" {
		e.notef("its target %s is not called", r.Target.ARN)
	}
	return e.finish("", r.Name)
}

// window sets from when to when the schedule is due.
func (e *entry) window(from, to date) {
	s := e.body.Object("schedule")
	if s.Text("kind") == "at" {
		if from != "" || to != "" {
			e.notef("StartDate and EndDate are left out: a schedule with at(…) ignores them")
		}
		return
	}
	if from != "" {
		s["start_at"] = string(from)
		if s.Text("kind") == "interval" { // a rate counts from it
			s["anchor"] = string(from)
		}
	}
	if to != "" {
		s["end_at"] = string(to)
	}
}

// awsSchedule sets the schedule to an expression of EventBridge: cron(…), rate(…) or at(…).
func (e *entry) awsSchedule(text, name string) error {
	const fields, dayOfWeek = 6, 4
	name = cmp.Or(name, e.opts.Zone, "UTC") // the default of EventBridge
	if m := rate.FindStringSubmatch(text); m != nil {
		unit := map[string]string{"minute": "m", "hour": "h", "day": "d"}[m[2]]
		if strings.Trim(m[1], "0") == "" {
			return fmt.Errorf("expected a rate of 1 or more, found %s", text)
		}
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
		e.cron("0 "+strings.Join(f, " "), name, "")
		if name != "UTC" {
			// EventBridge skips local times that do not exist, and is due once at those that occur
			// twice, as a cron with the default of overlap.
			e.body.Object("schedule")["gap"] = string(timer.GapSkip)
		}
		return nil
	}
	if at, one := strings.CutPrefix(inner, "at("); ok && one {
		return e.awsAt(text, at, name)
	}
	return fmt.Errorf("expected cron(…), rate(…) or at(…), found %q", text)
}

// awsAt sets the schedule to at(…). AWS does not say when a local time is due that does not exist on
// that day, or occurs twice.
func (e *entry) awsAt(text, at, name string) error {
	table, err := zone.Load(name)
	if err != nil {
		return fmt.Errorf("time zone %s: %w", strconv.Quote(name), err)
	}
	wall, err := time.Parse("2006-01-02T15:04:05", at)
	if err != nil {
		return fmt.Errorf("expected at(2030-01-31T09:00:00), found %s", text)
	}
	local := wall.Unix()
	unix := table.Resolve(local)
	instant := time.Unix(unix, 0).UTC().Format(time.RFC3339)
	next := table.At(unix) + 1 // the stretch of the zone after it
	switch {
	case unix+table.OffsetAt(unix) != local:
		e.notef(
			"%s does not exist in %s: schedule.at is %s, after the gap; correct it if you want "+
				"another instant",
			at,
			name,
			instant,
		)
	case next < table.Len() && local-table.Offset(next) >= table.Start(next):
		e.notef("%s occurs twice in %s: schedule.at is the first, %s; correct it if you want the "+
			"second", at, name, instant)
	}
	e.body["schedule"] = map[string]any{"kind": "at", "at": instant}
	return nil
}
