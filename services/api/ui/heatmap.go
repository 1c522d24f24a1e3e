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

	Later bool // it is to come
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
	}
	return "none"
}

// Total returns how many instants the hour has.
func (h heatHour) Total() int { return h.Delivered + h.Failed + h.Skipped + h.Coming }

// readHeat counts the outcomes of the past days by the hour in which fires ended, and the coming
// instants of as many days.
func (q *request) readHeat(d *timerData, id string, due []string) error {
	in := time.UTC
	if table, err := zone.Load(d.Zone); err == nil {
		in = table.Location()
	}
	now := q.page.opts.Now().In(in)
	var s statsBody
	err := q.get("/apps"+pathOf(q.app, "stats"), url.Values{
		"timer": {id}, "step": {"1h"},
		"from": {now.AddDate(0, 0, -heatDays).UTC().Format(time.RFC3339)},
		"to":   {now.UTC().Format(time.RFC3339)},
	}, &s)
	if err != nil {
		return err
	}
	days := make(map[string]*heatDay)
	d.Heat = make([]heatDay, 0, 2*heatDays+1)
	for i := -heatDays; i <= heatDays; i++ {
		day := heatDay{Date: now.AddDate(0, 0, i).Format(time.DateOnly), Today: i == 0}
		for h := range day.Hours {
			day.Hours[h].Hour = h
			day.Hours[h].Later = i > 0 || i == 0 && h > now.Hour()
		}
		d.Heat = append(d.Heat, day)
		days[day.Date] = &d.Heat[len(d.Heat)-1]
	}
	hour := func(at string) *heatHour {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return nil
		}
		day := days[t.In(in).Format(time.DateOnly)]
		if day == nil {
			return nil
		}
		return &day.Hours[t.In(in).Hour()]
	}
	for _, step := range s.Steps {
		if h := hour(step.Begin); h != nil {
			h.Delivered += step.Delivered
			h.Failed += step.Failed
			h.Skipped += step.Skipped
		}
	}
	for _, at := range due {
		if h := hour(at); h != nil {
			h.Coming++
		}
	}
	d.HeatPartial = s.Truncated
	if len(due) == heatForecast { // the API computes no more
		last, err := time.Parse(time.RFC3339, due[heatForecast-1])
		d.HeatPartial = d.HeatPartial || err != nil || last.Before(now.AddDate(0, 0, heatDays))
	}
	return nil
}
