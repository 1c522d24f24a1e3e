package limit

// Priority of a timer's fires.
type Priority uint8

// The priorities. Normal is the zero value's meaning in definitions; here they are places in
// Weights.
const (
	High Priority = iota
	Normal
	Low
	Priorities // how many there are
)

// Weights say how often each priority is picked while all have something waiting.
type Weights [Priorities]int

// DefaultWeights give low 1 of 21 starts: it moves.
func DefaultWeights() Weights { return Weights{High: 16, Normal: 4, Low: 1} }

// Picker picks among priorities by weight, evenly mixed: not sixteen of one and then four of the
// next. The zero value has the default weights. It is a value: a copy picks on by itself. It is not
// safe for concurrent use.
//
// It is worst-case fair weighted fair queueing (WF²Q) of jobs of equal size. Beside the picks it
// follows a server that works for all that wait at the same time, each by its weight. No priority
// is ever a whole pick behind that server, nor ahead of it. So in any run of picks a priority that
// waits throughout has less than two picks fewer than its share, whoever comes and goes meanwhile;
// where all wait throughout, each has less than two picks more or fewer. Where the share is a whole
// number, as in 42 picks by the default weights, that is one pick.
type Picker struct {
	weights Weights
	// Credit is by how much the picks of each are behind that server: above -1, at most 1, together
	// 0. A ledger keeps it between exchanges.
	Credit [Priorities]float64
}

// NewPicker returns a picker. A weight below 1 is 1: everything moves.
func NewPicker(w Weights) *Picker {
	for i := range w {
		w[i] = max(w[i], 1)
	}
	return &Picker{weights: w}
}

// rounding is what sums of credits may be off by.
const rounding = 1e-9

// Next returns whose turn it is among those that have something waiting; false: none has.
func (p *Picker) Next(waiting [Priorities]bool) (Priority, bool) {
	if p.weights == (Weights{}) {
		p.weights = DefaultWeights()
	}
	if waiting == [Priorities]bool{} {
		return 0, false
	}
	p.serve(waiting)
	// Of those whose next job the server has begun, that which it ends first. There is one, for the
	// credits add up to 1 now, and who does not wait has none.
	best, soonest := Priorities, 0.0
	for i := range p.weights {
		if !waiting[i] || p.Credit[i] <= rounding {
			continue
		}
		if end := (1 - p.Credit[i]) / float64(
			p.weights[i],
		); best == Priorities ||
			end < soonest-rounding {
			best, soonest = Priority(i), end
		}
	}
	if best == Priorities { // the credits came from elsewhere, and do not add up
		p.Credit = [Priorities]float64{}
		return p.Next(waiting)
	}
	p.Credit[best]--
	return best, true
}

// serve divides the work of one pick by weight: among those that wait, and those that do not and
// have been picked ahead of the server, which has their jobs still to end.
func (p *Picker) serve(waiting [Priorities]bool) {
	left := 1.0
	active := waiting
	for i, c := range p.Credit {
		active[i] = active[i] || c < 0
	}
	for again := true; again; {
		again = false
		sum := 0
		for i, w := range p.weights {
			if active[i] {
				sum += w
			}
		}
		share := left / float64(sum)
		for i, w := range p.weights {
			if active[i] && !waiting[i] && -p.Credit[i] <= share*float64(w) {
				left += p.Credit[i]
				p.Credit[i], active[i], again = 0, false, true
			}
		}
		if again {
			continue
		}
		for i, w := range p.weights {
			if active[i] {
				p.Credit[i] += share * float64(w)
			}
		}
	}
}
