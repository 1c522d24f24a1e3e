package limit

// Priority is the priority of a timer's fires.
type Priority uint8

// The priorities. In definitions the zero value means normal; here the values are indexes into
// Weights.
const (
	High Priority = iota
	Normal
	Low
	Priorities // number of priorities
)

// Weights are how often each priority is picked while all have waiting fires.
type Weights [Priorities]int

// DefaultWeights give low 1 of 21 starts, so that it never starves.
func DefaultWeights() Weights { return Weights{High: 16, Normal: 4, Low: 1} }

// Picker picks among priorities by weight, evenly mixed: not sixteen of one and then four of the
// next. The zero value has the default weights. A copy continues independently. It is not safe for
// concurrent use.
//
// The algorithm is worst-case fair weighted fair queueing (WF²Q) with jobs of equal size. It
// simulates a server that works for all waiting priorities at once, by weight. No priority is ever
// a whole pick behind or ahead of that server.
//
// So in any sequence of picks, a priority that waits throughout gets less than two picks fewer than
// its share, whatever the others do. If all wait throughout, each gets less than two picks more or
// fewer. If the share is a whole number, as in 42 picks by the default weights, the difference is
// at most one.
type Picker struct {
	weights Weights
	// Credit is by how much the picks of each priority are behind that server: above -1, at most 1,
	// with sum 0. The shared state stores it between calls of Sync.
	Credit [Priorities]float64
}

// NewPicker returns a picker. Weights below 1 become 1, so that no priority starves.
func NewPicker(w Weights) *Picker {
	for i := range w {
		w[i] = max(w[i], 1)
	}
	return &Picker{weights: w}
}

// rounding is the tolerance for sums of credits.
const rounding = 1e-9

// Next picks one of the priorities that have something waiting. It returns false if none has.
func (p *Picker) Next(waiting [Priorities]bool) (Priority, bool) {
	if p.weights == (Weights{}) {
		p.weights = DefaultWeights()
	}
	if waiting == [Priorities]bool{} {
		return 0, false
	}
	p.serve(waiting)
	// Of the jobs that the server has begun, pick the one that it ends first. There is one, because
	// the credits add up to 1 now and priorities without jobs have none.
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
	if best == Priorities { // the credits were loaded from outside and do not add up
		p.Credit = [Priorities]float64{}
		return p.Next(waiting)
	}
	p.Credit[best]--
	return best, true
}

// serve divides the work of one pick by weight. It goes to the priorities that wait, and to those
// that were picked ahead of the server, which must still finish their jobs.
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
