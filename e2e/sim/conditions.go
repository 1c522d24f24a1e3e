package sim

import "time"

// errorRates are the probabilities of faults in each call to the store.
type errorRates struct {
	read   float64 // a read fails
	before float64 // a write fails without effect
	after  float64 // a write takes effect, and its answer is lost
	slow   float64 // share of calls that take up to slowestLatency instead of a few ms
}

var healthy = errorRates{slow: 0.002}

const (
	usualLatency   = 3 * time.Millisecond
	slowestLatency = 400 * time.Millisecond
)

// latency splits a call's time into the delays of request and answer. draw is a random number from
// 0 to 1.
func (d errorRates) latency(draw float64) (sendDelay, replyDelay time.Duration) {
	if draw < d.slow {
		at := draw / d.slow
		//nolint:mnd // mostly on the way there
		return time.Duration(
				at * float64(slowestLatency),
			), time.Duration(
				(1 - at) * float64(slowestLatency) / 4,
			)
	}
	// Never a full number of microseconds, so that unrelated goroutines do not wake at one instant.
	return time.Duration(draw*float64(usualLatency)) | 1, 0
}

// conditions are the faults of the shared parts.
type conditions struct {
	store  errorRates
	outage chan struct{} // nil while the store is available; closed at the end of an outage
	hangs  bool          // during an outage calls to the store wait instead of failing
	// Share of calls to the window that fail, half of them after taking effect.
	windowErrors float64
	entriesLost  float64 // share of entries that the window loses silently
}

func (env *Environment) storeErrorRates() errorRates {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.conditions.store
}

func (env *Environment) storeOutage() (outage, hangs bool, over <-chan struct{}) {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.conditions.outage != nil, env.conditions.hangs, env.conditions.outage
}

func (env *Environment) windowErrorRates() (fails, entriesLost float64) {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.conditions.windowErrors, env.conditions.entriesLost
}
