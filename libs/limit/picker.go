package limit

// Priority of a timer's fires.
type Priority uint8

// The priorities. Normal is the zero value's meaning in definitions; here they are places in Weights.
const (
	High Priority = iota
	Normal
	Low
	priorities
)

// Weights say how often each priority is picked while all have something waiting.
type Weights [priorities]int

// DefaultWeights give low 1 of 21 starts: it moves.
func DefaultWeights() Weights { return Weights{High: 16, Normal: 4, Low: 1} }

// Picker picks among priorities by weight, evenly mixed: not sixteen of one and then four of the next. It is not safe for concurrent use.
type Picker struct {
	weights Weights
	credit  [priorities]int
}

// NewPicker returns a picker. A weight below 1 is 1: everything moves.
func NewPicker(w Weights) *Picker {
	for i := range w {
		w[i] = max(w[i], 1)
	}
	return &Picker{weights: w}
}

// Next returns whose turn it is among those that have something waiting; false: none has. A priority that had nothing gathers no credit meanwhile.
func (p *Picker) Next(waiting [priorities]bool) (Priority, bool) {
	best, sum := priorities, 0
	for i := range p.weights {
		if !waiting[i] {
			p.credit[i] = 0
			continue
		}
		sum += p.weights[i]
		p.credit[i] += p.weights[i]
		if best == priorities || p.credit[i] > p.credit[best] {
			best = Priority(i)
		}
	}
	if best == priorities {
		return 0, false
	}
	p.credit[best] -= sum
	return best, true
}
