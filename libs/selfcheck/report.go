package selfcheck

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxLateness is how late a canary may be before readiness shows it: the service level that users are
// given.
const maxLateness = time.Second

// Report is what is known of the canary, for people.
type Report struct {
	Interval   string    `json:"interval"`
	Due        time.Time `json:"due,omitzero"` // of the latest that was called and recorded
	LatenessMS int64     `json:"lateness_ms"`  // of that one
	// since it was due; since this process watches, before the first.
	AgeMS int64 `json:"age_ms"`
	// of the latest that has one: delivered, or skipped where it was switched off or replaced.
	Outcome string `json:"outcome,omitempty"`
}

// Report returns what is known.
func (w *Watch) Report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Report{
		Interval: w.interval.String(),
		AgeMS:    w.age().Milliseconds(),
		Outcome:  string(w.kind),
	}
	if w.last != nil {
		r.Due, r.LatenessMS = time.UnixMilli(w.last.DueMS).UTC(), w.last.LatenessMS
	}
	return r
}

// Check returns an error while the canary is late or silent. It must not decide whether a process
// is ready: the canary speaks of the deployment, and an API that takes no timers because the
// executors are away would make a whole outage of a part.
func (w *Watch) Check(context.Context) error {
	r := w.Report()
	switch was := time.Duration(r.LatenessMS) * time.Millisecond; {
	case w.overdue():
		return fmt.Errorf(
			"none for %s, and there should be one every %s",
			(time.Duration(r.AgeMS) * time.Millisecond).Round(time.Second),
			r.Interval,
		)
	case was > maxLateness:
		return fmt.Errorf("the latest was %s late", was)
	}
	return nil
}

// OldestOverdue returns how far the most overdue open fire is past its run; 0 where none is. Where the
// store has not answered for a while, nothing that came due since can have been recorded: then that
// time counts too, and what is returned is the most that it can be.
func (w *Watch) OldestOverdue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if unknown := time.Since(w.polledAt); unknown > unvouchedAfter {
		return w.oldestOverdue + unknown
	}
	return w.oldestOverdue
}

// overdue tells whether a canary is overdue by more than two, and by more than it can take to be
// seen.
func (w *Watch) overdue() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	//nolint:mnd // two canaries, or four looks
	return w.age() > w.interval+max(2*w.interval, 4*pollEvery)
}

func (w *Watch) age() time.Duration {
	if w.last == nil {
		return time.Since(w.began)
	}
	return max(0, w.opts.Now().Sub(time.UnixMilli(w.last.DueMS)))
}

func (w *Watch) register(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, read func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	const ms = 1000
	gauge(
		"carillon_oldest_open_fire_seconds",
		"How far the most overdue open fire is past its run, as this process knows; while the store does not answer, the most that it can be.",
		func() float64 { return w.OldestOverdue().Seconds() },
	)
	if w.opts.Interval == 0 {
		return
	}
	gauge(
		"carillon_canary_lateness_seconds",
		"Lateness of the latest canary fire that was called and recorded.",
		func() float64 {
			return float64(w.Report().LatenessMS) / ms
		},
	)
	gauge(
		"carillon_canary_age_seconds",
		"How long ago the latest canary fire that was called and recorded was due; before the first, how long this process watches.",
		func() float64 { return float64(w.Report().AgeMS) / ms },
	)
	gauge("carillon_canary_interval_seconds", "How often a canary is due.", func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.interval.Seconds()
	})
}
