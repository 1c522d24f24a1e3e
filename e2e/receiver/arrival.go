package receiver

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Arrival is one callback as it came in. Instants are unix nanoseconds.
type Arrival struct {
	Fire timer.FireID
	// StartNS: Carillon-Start: the executor's clock just before the call; 0 where the header was
	// missing.
	StartNS   int64
	ArrivedNS int64 // the receiver's clock when the request was read
	DoneNS    int64 // the receiver's clock when it answered; 0 while it has not
	BodyHash  uint64
	Attempt   int32
	Status    uint16 // the answer; 0 while there is none
	Port      uint16 // the caller's: it tells which process called
}

// Arrived returns when the request was read.
func (a *Arrival) Arrived() time.Time { return time.Unix(0, a.ArrivedNS) }

// Succeeded tells whether it was answered with success.
func (a *Arrival) Succeeded() bool { return isSuccess(a.Status) }

// Lateness returns the callback's start minus the fire's due instant. Without a start it is counted
// from the arrival.
func (a *Arrival) Lateness() time.Duration {
	start := a.StartNS
	if start == 0 {
		start = a.ArrivedNS
	}
	return time.Duration(start - a.Fire.DueMS*int64(time.Millisecond))
}

// InFlightAt tells whether the call had arrived by then and was not answered before then minus
// recording: an answer counts as in flight for as long as the executor may still have been busy
// recording it.
func (a *Arrival) InFlightAt(at time.Time, recording time.Duration) bool {
	return a.ArrivedNS <= at.UnixNano() &&
		(a.DoneNS == 0 || a.DoneNS >= at.Add(-recording).UnixNano())
}

// Arrivals are callbacks in the order of their arrival.
type Arrivals []Arrival

// Sort orders them by arrival.
func (as Arrivals) Sort() {
	slices.SortStableFunc(
		as,
		func(a, b Arrival) int { return cmp.Compare(a.ArrivedNS, b.ArrivedNS) },
	)
}

// ByFire groups them by fire.
func (as Arrivals) ByFire() map[timer.FireID]Arrivals {
	m := make(map[timer.FireID]Arrivals, len(as))
	for _, a := range as {
		m[a.Fire] = append(m[a.Fire], a)
	}
	return m
}

// Dues returns the due instants that came (unix ms), ascending, each once.
func (as Arrivals) Dues() []int64 {
	dues := make([]int64, 0, len(as))
	for _, a := range as {
		dues = append(dues, a.Fire.DueMS)
	}
	slices.Sort(dues)
	return slices.Compact(dues)
}

// Duplicates returns the arrivals that at-least-once allows and that exactly-once would not have:
// those of a fire that was answered with success before, and those that repeat an attempt. They
// must be sorted.
func (as Arrivals) Duplicates() Arrivals {
	type state struct {
		attempts int32 // the highest seen
		answered bool
	}
	seen := make(map[timer.FireID]state, len(as))
	var dup Arrivals
	for _, a := range as {
		s, again := seen[a.Fire]
		if again && (s.answered || a.Attempt <= s.attempts) {
			dup = append(dup, a)
		}
		s.attempts = max(s.attempts, a.Attempt)
		s.answered = s.answered || isSuccess(a.Status)
		seen[a.Fire] = s
	}
	return dup
}

// Early returns the arrivals that started before they were due by the executor's clock, and those
// that arrived more than clocks before they were due by the receiver's. A call without
// Carillon-Start is early: nothing proves that it is not.
func (as Arrivals) Early(clocks time.Duration) Arrivals {
	var early Arrivals
	for _, a := range as {
		due := a.Fire.DueMS * int64(time.Millisecond)
		if a.StartNS < due || a.ArrivedNS < due-int64(clocks) {
			early = append(early, a)
		}
	}
	return early
}

// Lateness returns the quantiles of the first attempts' lateness.
func (as Arrivals) Lateness() Quantiles {
	return as.quantiles(func(a *Arrival) time.Duration { return a.Lateness() })
}

// ArrivalLateness returns the quantiles of the first attempts' arrival minus due instant: what a
// user sees, with the connection and the receiver's own queue in it.
func (as Arrivals) ArrivalLateness() Quantiles {
	return as.quantiles(func(a *Arrival) time.Duration {
		return time.Duration(a.ArrivedNS - a.Fire.DueMS*int64(time.Millisecond))
	})
}

func (as Arrivals) quantiles(of func(*Arrival) time.Duration) Quantiles {
	v := make([]time.Duration, 0, len(as))
	for i := range as {
		if as[i].Attempt <= 1 {
			v = append(v, of(&as[i]))
		}
	}
	return QuantilesOf(v)
}

// Quantiles of durations.
type Quantiles struct {
	N    int           `json:"n"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

// QuantilesOf sorts v and returns its quantiles (nearest rank); zero for none.
func QuantilesOf(v []time.Duration) Quantiles {
	if len(v) == 0 {
		return Quantiles{}
	}
	slices.Sort(v)
	at := func(q float64) time.Duration {
		return v[max(0, int(math.Ceil(q*float64(len(v))))-1)]
	}
	return Quantiles{N: len(v), P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: v[len(v)-1]}
}

func isSuccess(status uint16) bool { return status >= 200 && status < 300 }
