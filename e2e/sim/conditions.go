package sim

import "time"

// errorRates say how good or bad the store's days are: what may befall each call.
type errorRates struct {
	read   float64 // a read fails
	before float64 // a write fails, and nothing was done
	after  float64 // a write is done, and its answer is lost
	slow   float64 // share of calls that take up to slowest instead of a few ms
}

var healthy = errorRates{slow: 0.002}

const (
	usualLatency   = 3 * time.Millisecond
	slowestLatency = 400 * time.Millisecond
)

// latency divides the time of a call into the way there and the way back. d is drawn from 0 to 1.
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
	// Never a whole number of microseconds, so that what waits for different things does not wake
	// at one instant.
	return time.Duration(draw*float64(usualLatency)) | 1, 0
}

// conditions is what the parts that all share go through.
type conditions struct {
	store  errorRates
	outage chan struct{} // not nil: the store is away; closed when it is back
	hangs  bool          // calls to the store that is away wait instead of failing
	// share of calls to the window that fail, half of them though they are done.
	windowErrors float64
	entriesLost  float64 // share of marks that the window loses without a trace
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
