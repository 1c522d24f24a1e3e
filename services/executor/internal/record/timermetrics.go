package record

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

const (
	// maxTimers is how many timers have series of their own per process, the first ones it meets.
	// The store refuses more in a deployment. This is a protection besides: a process that is behind
	// may still have the series of a timer that is deleted. Further timers count together.
	maxTimers   = store.MaxMeteredTimers
	otherTimers = "(others)"
	warnEvery   = time.Minute
)

// timerMetrics are the metrics of the timers whose definition asks for them. Series are removed
// when their timer is deleted or edited: an edited timer begins anew, if it still asks.
type timerMetrics struct {
	fires    *prometheus.CounterVec
	lateness *prometheus.SummaryVec
	current  func(id timer.ID, version int32) bool
	log      zerolog.Logger

	mu       sync.Mutex
	labelled map[timer.ID]labelledTimer
}

// labelledTimer is a timer with series of its own.
type labelledTimer struct {
	app, name string
	version   int32
}

func newTimerMetrics(
	reg prometheus.Registerer,
	current func(id timer.ID, version int32) bool,
	log zerolog.Logger,
) *timerMetrics {
	f := promauto.With(reg)
	m := &timerMetrics{
		fires: f.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_timer_fires_total",
			Help: "Fires recorded of timers with metrics, by timer, outcome and reason. Beyond 1,000 timers the timer is (others).",
		}, []string{"app", "timer", "outcome", "reason"}),
		lateness: f.NewSummaryVec(prometheus.SummaryOpts{
			Name: "carillon_timer_lateness_seconds",
			Help: "Sum and number of the lateness of called fires of timers with metrics, by timer. Beyond 1,000 timers the timer is (others).",
		}, []string{"app", "timer"}),
		current:  current,
		log:      log.Sample(&zerolog.BurstSampler{Burst: 1, Period: warnEvery}),
		labelled: make(map[timer.ID]labelledTimer),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_timers_with_metrics",
		Help: "Timers that have series of their own in this process.",
	}, func() float64 { return float64(m.len()) })
	return m
}

func (m *timerMetrics) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.labelled)
}

// recorded counts a fire, if its definition asks for it.
func (m *timerMetrics) recorded(e *inflight.Entry, o *timer.Outcome) {
	if e.Def == nil || !e.Def.Metrics {
		return
	}
	// Under the lock, so that a fire does not bring back the series of a timer that goes.
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.labelled[o.Timer]
	switch {
	case ok:
	case !m.current(o.Timer, o.Version):
		return // deleted, or edited: perhaps it no longer asks
	case len(m.labelled) >= maxTimers:
		t = labelledTimer{app: otherTimers, name: otherTimers}
		m.log.Warn().
			Str(logging.App, e.App).
			Str(logging.TimerName, e.Name).
			Int("most", maxTimers).
			Msg("too many timers with metrics, further ones count together")
	default:
		t = labelledTimer{e.App, e.Name, o.Version}
		m.labelled[o.Timer] = t
	}
	m.fires.WithLabelValues(t.app, t.name, string(o.Kind), string(o.Reason)).Inc()
	if o.Attempts > 0 {
		//nolint:mnd // ms to s
		m.lateness.WithLabelValues(t.app, t.name).Observe(float64(o.LatenessMS) / 1000)
	}
}

// changed removes the series of a timer that was deleted or edited.
func (m *timerMetrics) changed(s *timer.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.labelled[s.ID]
	if ok && (s.Status == timer.StatusDeleted || s.Version > t.version) {
		m.remove(s.ID, t)
	}
}

// clear removes all series.
func (m *timerMetrics) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, t := range m.labelled {
		m.remove(id, t)
	}
}

func (m *timerMetrics) remove(id timer.ID, t labelledTimer) {
	delete(m.labelled, id)
	m.fires.DeletePartialMatch(prometheus.Labels{"app": t.app, "timer": t.name})
	m.lateness.DeleteLabelValues(t.app, t.name)
}
