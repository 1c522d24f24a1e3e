package ui

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	nowMinutes  = 5
	overviewTop = "5" // fires and timers that are listed
)

type overviewData struct {
	Now      nowData
	Hour     hourData
	State    *operationsBody // of the deployment; nil for callers of an app
	Failures fireList
	Next     timerList

	MoreFailures, MoreTimers string // where a search goes on that has found none so far
}

// nowData is about the last minutes. It is read again every few seconds, so it covers little.
type nowData struct {
	Rate  string // calls per second
	Stats statsBody
}

// hourData is about the last hour and the next one.
type hourData struct {
	Stats              statsBody
	Reasons            []reasonCount
	Past, Late, Coming string // JSON of the charts
	Upcoming           upcomingBody
}

type reasonCount struct {
	Reason string
	Count  int
}

type upcomingBody struct {
	Total   int
	Exact   bool
	Peak    *upcomingMinute
	Minutes []upcomingMinute
}

type upcomingMinute struct {
	Begin string
	Count int
}

// showOverview shows what happens in an app: now, in the last hour, and in the next one.
func showOverview(q *request) error {
	d := new(overviewData)
	if err := q.readNow(d); err != nil {
		return err
	}
	if err := q.readHour(d); err != nil {
		return err
	}
	return q.show("overview", d)
}

// showNow shows the part of the overview that is about now.
func showNow(q *request) error {
	d := new(overviewData)
	if err := q.readNow(d); err != nil {
		return err
	}
	return q.showPart("overview", "now", d)
}

// showHour shows the part of the overview that is about the hour.
func showHour(q *request) error {
	d := new(overviewData)
	if err := q.readHour(d); err != nil {
		return err
	}
	return q.showPart("overview", "hour", d)
}

func (q *request) readNow(d *overviewData) error {
	now := q.page.opts.Now().UTC()
	s := &d.Now.Stats
	if err := q.readStats(now.Add(-nowMinutes*time.Minute), now, s); err != nil {
		return err
	}
	if q.caller().Deployment {
		d.State = new(operationsBody)
		if err := q.get("/operations", nil, d.State); err != nil {
			return err
		}
	}
	d.Now.Rate = strconv.FormatFloat(s.rate(now), 'f', 1, 64)
	err := q.get("/apps"+pathOf(q.app, "fires"),
		url.Values{"state": {"failed"}, "limit": {overviewTop}}, &d.Failures)
	if c := d.Failures.NextCursor; c != "" {
		d.MoreFailures = q.appPath("fires") + "?" +
			url.Values{"state": {"failed"}, "cursor": {c}}.Encode()
	}
	return err
}

// rate returns the calls per second in the present minute and the one before. Of too many fires the
// API counts the latest.
func (s *statsBody) rate(now time.Time) float64 {
	from := now.Truncate(time.Minute).Add(-time.Minute)
	calls := 0
	for _, step := range s.Steps {
		if at, err := time.Parse(time.RFC3339, step.Begin); err == nil && !at.Before(from) {
			calls += step.Delivered + step.Failed
		}
	}
	if at, err := time.Parse(time.RFC3339, s.CompleteFrom); err == nil && at.After(from) {
		from = at
	}
	if !now.After(from) {
		return 0
	}
	return float64(calls) / now.Sub(from).Seconds()
}

func (q *request) readStats(from, to time.Time, s *statsBody) error {
	return q.get("/apps"+pathOf(q.app, "stats"), url.Values{
		"step": {"1m"}, "from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339Nano)},
	}, s)
}

func (q *request) readHour(d *overviewData) error {
	now := q.page.opts.Now().UTC()
	h := &d.Hour
	begin := now.Truncate(time.Minute).Add(-time.Hour)
	if err := q.readStats(begin, now, &h.Stats); err != nil {
		return err
	}
	h.chartPast(begin)
	for _, reason := range slices.Sorted(maps.Keys(h.Stats.Total.Reasons)) {
		h.Reasons = append(h.Reasons, reasonCount{reason, h.Stats.Total.Reasons[reason]})
	}
	err := q.get("/apps"+pathOf(q.app, "upcoming"), url.Values{"hours": {"1"}}, &h.Upcoming)
	if err != nil {
		return err
	}
	h.chartComing(now.Truncate(time.Minute))
	due := url.Values{"status": {"active"}, "sort": {"next_due"}}
	query := maps.Clone(due)
	query.Set("app", q.app)
	query.Set("limit", overviewTop)
	err = q.get("/timers", query, &d.Next)
	if c := d.Next.NextCursor; c != "" {
		due.Set("cursor", c)
		d.MoreTimers = q.appPath("timers") + "?" + due.Encode()
	}
	return err
}

// chartPast charts the outcomes and the lateness of each minute. A minute without fires is zero in
// the one and has no point in the other.
func (h *hourData) chartPast(begin time.Time) {
	steps := make(map[int64]statsStep)
	for _, s := range h.Stats.Steps {
		if at, err := time.Parse(time.RFC3339, s.Begin); err == nil {
			steps[at.Unix()] = s
		}
	}
	counts, late := make([][]int64, 4), make([][]*int64, 3)
	for i := range 61 { // the present minute is the last
		at := begin.Add(time.Duration(i) * time.Minute).Unix()
		s := steps[at]
		for column, n := range []int64{at, int64(s.Delivered), int64(s.Failed), int64(s.Skipped)} {
			counts[column] = append(counts[column], n)
		}
		row := []*int64{&at, nil, nil}
		if l := s.Lateness; l != nil {
			row[1], row[2] = &l.P50MS, &l.P99MS
		}
		for column, n := range row {
			late[column] = append(late[column], n)
		}
	}
	h.Past, h.Late = chart(counts), chart(late)
}

func (h *hourData) chartComing(begin time.Time) {
	planned := make(map[int64]int)
	for _, m := range h.Upcoming.Minutes {
		if at, err := time.Parse(time.RFC3339, m.Begin); err == nil {
			planned[at.Unix()] = m.Count
		}
	}
	columns := make([][]int64, 2)
	for i := range 60 {
		at := begin.Add(time.Duration(i) * time.Minute).Unix()
		columns[0] = append(columns[0], at)
		columns[1] = append(columns[1], int64(planned[at]))
	}
	h.Coming = chart(columns)
}

// chart returns columns of numbers as page.js reads them.
func chart(columns any) string {
	b, _ := json.Marshal(columns) // numbers are always JSON
	return string(b)
}
