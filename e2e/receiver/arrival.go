package receiver

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Arrival is one received callback. Instants are unix nanoseconds.
type Arrival struct {
	Fire timer.FireID
	// StartNS is the Carillon-Start header: the executor's clock just before the call; 0 without
	// the header.
	StartNS   int64
	ArrivedNS int64 // the receiver's clock when it had read the request
	DoneNS    int64 // the receiver's clock when it answered; 0 before that
	BodyHash  uint64
	Attempt   int32
	Status    uint16 // the answer's status; 0 before the answer
	Port      uint16 // the caller's source port, which tells the calling process
	Proxied   bool   // a proxy made the connection, because the request names another host
}

// Arrived returns the instant at which the request was read.
func (a *Arrival) Arrived() time.Time { return time.Unix(0, a.ArrivedNS) }

// Succeeded reports whether the answer was a success.
func (a *Arrival) Succeeded() bool { return isSuccess(a.Status) }

// Lateness returns the callback's start minus the fire's due instant. Without a start it uses the
// arrival.
func (a *Arrival) Lateness() time.Duration {
	start := a.StartNS
	if start == 0 {
		start = a.ArrivedNS
	}
	return time.Duration(start - a.Fire.DueMS*int64(time.Millisecond))
}

// InFlightAt reports whether the call had begun by an instant and was not answered before that
// instant minus recording. An answered call stays in flight as long as the executor may need to
// record the answer. A busy receiver may read a request after its sender died, so the start counts
// where it is known. Clocks is the greatest difference of the sender's and the receiver's clocks.
func (a *Arrival) InFlightAt(at time.Time, recording, clocks time.Duration) bool {
	begun := a.ArrivedNS
	if a.StartNS != 0 {
		begun = min(begun, a.StartNS+clocks.Nanoseconds())
	}
	return begun <= at.UnixNano() &&
		(a.DoneNS == 0 || a.DoneNS >= at.Add(-recording).UnixNano())
}

// Arrivals are callbacks, usually in the order of their arrival.
type Arrivals []Arrival

// Sort sorts the arrivals by time.
func (as Arrivals) Sort() {
	slices.SortStableFunc(
		as,
		func(a, b Arrival) int { return cmp.Compare(a.ArrivedNS, b.ArrivedNS) },
	)
}

// ByFire groups the arrivals by fire.
func (as Arrivals) ByFire() map[timer.FireID]Arrivals {
	m := make(map[timer.FireID]Arrivals, len(as))
	for _, a := range as {
		m[a.Fire] = append(m[a.Fire], a)
	}
	return m
}

// Dues returns the distinct due instants of the arrivals (unix ms), ascending.
func (as Arrivals) Dues() []int64 {
	dues := make([]int64, 0, len(as))
	for _, a := range as {
		dues = append(dues, a.Fire.DueMS)
	}
	slices.Sort(dues)
	return slices.Compact(dues)
}

// Duplicates returns the arrivals that at-least-once allows and exactly-once does not: calls of a
// fire after a success, and repeated attempts. The arrivals must be sorted.
func (as Arrivals) Duplicates() Arrivals {
	type state struct {
		attempts int32 // highest attempt so far
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

// Early returns the arrivals that started before their due instant by the executor's clock, and
// those that arrived more than clocks before it by the receiver's. A call without Carillon-Start is
// early, because nothing proves its start.
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

// ArrivalLateness returns the quantiles of the first attempts' arrival minus due instant. They
// include the connection and the receiver's own queue, as a user sees it.
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

// Quantiles has the quantiles of a set of durations.
type Quantiles struct {
	N    int           `json:"n"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

// QuantilesOf sorts v and returns its quantiles (nearest rank), or the zero value if v is empty.
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
