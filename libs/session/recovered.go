package session

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Causes of recovered fires, the values of the label cause of RecoveredCounter.
const (
	CauseExpiredSession = "expired_session" // claimed by a session that has expired
	CauseOverdue        = "overdue"         // long past their run time, without an alive owner
)

// RecoveredCounter returns the counter of recovered fires, by cause, registered with reg. Services
// that share a registry share the counter. It panics if reg refuses the counter.
func RecoveredCounter(reg prometheus.Registerer) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_fires_recovered_total",
		Help: "Fires that were found late or without their executor, by cause: claimed by an expired " +
			"session, or overdue.",
	}, []string{"cause"})
	c.WithLabelValues(CauseExpiredSession) // series exist from the start
	c.WithLabelValues(CauseOverdue)
	err := reg.Register(c)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		//nolint:forcetypeassert // registered above, by another service
		return registered.ExistingCollector.(*prometheus.CounterVec)
	}
	if err != nil {
		panic(err)
	}
	return c
}
