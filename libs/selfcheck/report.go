package selfcheck

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// maxLateness is the lateness of a canary from which Check fails. It is the service level promised
// to users.
const maxLateness = time.Second

// Report is the state of the canary, for operators.
type Report struct {
	Interval   string    `json:"interval"`
	Due        time.Time `json:"due,omitzero"` // of the latest recorded canary call
	LatenessMS int64     `json:"lateness_ms"`  // of the same call
	// AgeMS is the time since Due. Before the first call it is the time since this process started
	// watching.
	AgeMS int64 `json:"age_ms"`
	// Outcome is the latest outcome: delivered, or skipped if the canary was disabled or replaced.
	Outcome string `json:"outcome,omitempty"`
}

// Report returns the state of the canary.
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

// Check returns an error while the canary is late or overdue. It must not decide the readiness of a
// process, because it describes the deployment. An API that rejected timers while executors are
// unavailable would turn a partial outage into a full one.
func (w *Watch) Check(context.Context) error {
	r := w.Report()
	switch was := time.Duration(r.LatenessMS) * time.Millisecond; {
	case w.overdue():
		return fmt.Errorf(
			"no canary call for %s, expected one every %s",
			(time.Duration(r.AgeMS) * time.Millisecond).Round(time.Second),
			r.Interval,
		)
	case was > maxLateness:
		return fmt.Errorf("the latest canary call was %s late", was)
	}
	return nil
}

// OldestOverdue returns how long ago the most overdue open fire was to run, or 0 if none is
// overdue. If the store has not answered for a while, fires may have become due unnoticed. Then
// that time is added, and the result is an upper bound.
func (w *Watch) OldestOverdue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if unknown := time.Since(w.polledAt); unknown > unvouchedAfter {
		return w.oldestOverdue + unknown
	}
	return w.oldestOverdue
}

// overdue reports whether a canary call is overdue by more than two intervals, and by more than
// polling can delay it.
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

// showLateness shows the lateness of the latest canary as it was read. It shows none before the first
// call, and none once the canary was not read for unvouchedAfter: the alert takes the minimum over all
// processes, so an old value or a zero would hide that of the others. Only Run calls it.
func (w *Watch) showLateness() {
	if w.lateness == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil || time.Since(w.canaryAt) > unvouchedAfter {
		w.lateness.Reset()
		return
	}
	late := time.Duration(w.last.LatenessMS) * time.Millisecond
	w.lateness.WithLabelValues().Set(late.Seconds())
}

func (w *Watch) register(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, read func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	const ms = 1000
	gauge(
		"carillon_oldest_open_fire_seconds",
		"Age of the most overdue open fire, as this process knows; an upper bound while the store does not answer.",
		func() float64 { return w.OldestOverdue().Seconds() },
	)
	if w.opts.Interval == 0 {
		return
	}
	w.lateness = f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "carillon_canary_lateness_seconds",
		Help: "Lateness of the latest recorded canary call; none before the first, and while the store does not answer.",
	}, nil)
	gauge(
		"carillon_canary_age_seconds",
		"Time since the latest recorded canary call was due; before the first, since this process started watching.",
		func() float64 { return float64(w.Report().AgeMS) / ms },
	)
	gauge("carillon_canary_interval_seconds", "How often a canary is due.", func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.interval.Seconds()
	})
}
