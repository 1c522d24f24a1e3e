package sim

import "time"

// days say how good or bad the store's days are: what may befall each call.
type days struct {
	read   float64 // a read fails
	before float64 // a write fails, and nothing was done
	after  float64 // a write is done, and its answer is lost
	slow   float64 // share of calls that take up to slowest instead of a few ms
}

var good = days{slow: 0.002}

const (
	usual   = 3 * time.Millisecond
	slowest = 400 * time.Millisecond
)

// lag divides the time of a call into the way there and the way back. d is drawn from 0 to 1.
func (d days) lag(draw float64) (there, back time.Duration) {
	if draw < d.slow {
		at := draw / d.slow
		//nolint:mnd // mostly on the way there
		return time.Duration(at * float64(slowest)), time.Duration((1 - at) * float64(slowest) / 4)
	}
	// Never a whole number of microseconds, so that what waits for different things does not wake
	// at one instant.
	return time.Duration(draw*float64(usual)) | 1, 0
}

// weather is what the parts that all share go through.
type weather struct {
	store days
	away  chan struct{} // not nil: the store is away; closed when it is back
	hangs bool          // calls to the store that is away wait instead of failing
	// share of calls to the window that fail, half of them though they are done.
	window    float64
	marksLost float64 // share of marks that the window loses without a trace
}

func (w *Environment) storeDays() days {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.weather.store
}

func (w *Environment) storeAway() (away, hangs bool, over <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.weather.away != nil, w.weather.hangs, w.weather.away
}

func (w *Environment) windowDays() (fails, marksLost float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.weather.window, w.weather.marksLost
}
