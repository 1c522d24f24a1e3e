package ui

import (
	"net/url"
	"time"

	"github.com/carillon-timer/carillon/libs/zone"
)

// heatDay is a row of the heat map: 24 hours by the wall clock of the timer's zone.
type heatDay struct {
	Date  string
	Today bool
	Hours [24]heatHour
}

// heatHour counts what happened in an hour, and what is to come.
type heatHour struct {
	Hour                               int
	Delivered, Failed, Skipped, Coming int

	Later     bool // it is to come
	Partial   bool // it has at least what is counted
	Uncounted bool // nothing of it was counted

	begin, end time.Time // two hours, where the clocks go back; zero, where they skip the hour
}

// Class returns the worst of the hour, which chooses its color.
func (h heatHour) Class() string {
	switch {
	case h.Failed > 0:
		return "failed"
	case h.Skipped > 0:
		return "skipped"
	case h.Delivered > 0:
		return "delivered"
	case h.Coming > 0:
		return "coming"
	case h.Uncounted, h.Partial:
		return "uncounted"
	}
	return "none"
}

// Total returns how many instants the hour has.
func (h heatHour) Total() int { return h.Delivered + h.Failed + h.Skipped + h.Coming }

// missFrom notes that instants after one were not counted, of the hour that has it only some.
func (h *heatHour) missFrom(at time.Time) {
	switch {
	case h.begin.IsZero():
	case h.begin.After(at):
		h.Uncounted = true
	case h.end.After(at):
		h.Partial = true
	}
}

// missBefore notes that fires before an instant were not counted.
func (h *heatHour) missBefore(at time.Time) {
	switch {
	case h.begin.IsZero():
	case !h.end.After(at):
		h.Uncounted = true
	case h.begin.Before(at):
		h.Partial = true
	}
}

// heatMap is the rows of the heat map, with those that were not counted marked.
type heatMap []heatDay

// quarter divides the hours of all zones of today, and their changes. In quarters, the past week has
// fewer steps than one request takes.
const quarter = 15 * time.Minute

// newHeatMap returns the days around an instant, without counts.
func newHeatMap(now time.Time) heatMap {
	m := make(heatMap, 0, 2*heatDays+1)
	for i := -heatDays; i <= heatDays; i++ {
		day := heatDay{Date: noon(now, i).Format(time.DateOnly), Today: i == 0}
		for h := range day.Hours {
			day.Hours[h] = heatHour{Hour: h, Later: i > 0 || i == 0 && h > now.Hour()}
		}
		m = append(m, day)
	}
	for at := noon(now, -heatDays-1); at.Before(noon(now, heatDays+1)); at = at.Add(quarter) {
		if h := m.hour(at); h != nil {
			if h.begin.IsZero() {
				h.begin = at
			}
			h.end = at.Add(quarter)
		}
	}
	return m
}

// noon returns the noon of a day, so many days after that of an instant. No clock skips it.
func noon(at time.Time, days int) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day()+days, 12, 0, 0, 0, at.Location())
}

// hour returns the hour that has an instant, which is in the zone of the rows, or nil.
func (m heatMap) hour(at time.Time) *heatHour {
	date := at.Format(time.DateOnly)
	for i := range m {
		if m[i].Date == date {
			return &m[i].Hours[at.Hour()]
		}
	}
	return nil
}

// begin returns the first instant.
func (m heatMap) begin() (at time.Time) {
	m.each(func(h *heatHour) {
		if at.IsZero() {
			at = h.begin
		}
	})
	return at
}

// each calls f for every hour.
func (m heatMap) each(f func(*heatHour)) {
	for i := range m {
		for h := range m[i].Hours {
			f(&m[i].Hours[h])
		}
	}
}

// readHeat counts the outcomes of the past days by the hour in which fires ended, and the coming
// instants of as many days. The API counts and computes a limited number: what is beyond that is
// marked, because it would look as if nothing had been or was due.
func (q *request) readHeat(d *timerData, id string, due []string) error {
	in := time.UTC
	if table, err := zone.Load(d.Zone); err == nil {
		in = table.Location()
	}
	now := q.page.opts.Now().In(in)
	m := newHeatMap(now)
	var s statsBody
	err := q.get("/apps"+pathOf(q.app, "stats"), url.Values{
		"timer": {id}, "step": {"15m"},
		"from": {m.begin().UTC().Format(time.RFC3339)},
		"to":   {now.UTC().Format(time.RFC3339)},
	}, &s)
	if err != nil {
		return err
	}
	for _, step := range s.Steps {
		at, err := time.Parse(time.RFC3339, step.Begin)
		if h := m.hour(at.In(in)); err == nil && h != nil {
			h.Delivered += step.Delivered
			h.Failed += step.Failed
			h.Skipped += step.Skipped
		}
	}
	if kept := q.page.opts.Retention; kept > 0 {
		m.each(func(h *heatHour) { h.missBefore(now.Add(-kept)) })
	}
	if from, err := time.Parse(time.RFC3339, s.CompleteFrom); err == nil && s.Truncated {
		m.each(func(h *heatHour) { h.missBefore(from) })
	}
	var last time.Time
	for _, text := range due {
		at, err := time.Parse(time.RFC3339, text)
		if h := m.hour(at.In(in)); err == nil && h != nil {
			h.Coming++
		}
		last = at
	}
	if d.NotComputed {
		m.each(func(h *heatHour) { h.missFrom(now) })
	} else if len(due) == heatForecast { // the API computes no more
		m.each(func(h *heatHour) { h.missFrom(last) })
	}
	m.each(func(h *heatHour) { d.HeatPartial = d.HeatPartial || h.Partial || h.Uncounted })
	d.Heat = m
	return nil
}
