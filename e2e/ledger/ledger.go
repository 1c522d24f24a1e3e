package ledger

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Duty says what must happen to a fire.
type Duty uint8

// The duties of a fire.
const (
	Must Duty = iota // the fire is called, and ends delivered
	Fail             // the fire is called, and ends failed
	May              // both are right: the fire was due while its timer's status changed
	Not              // the fire is not called: it is skipped, or does not exist
)

// Ledger lists the fires that must happen, with their duties. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	fires map[timer.FireID]Duty
	// The first and the last instant at which a timer's fires are checked. Check ignores its other
	// fires.
	spans map[timer.ID]span
	// Lateness from which the fires of a timer start in the order of their due instants.
	inOrder map[timer.ID]time.Duration
}

type span struct{ from, to int64 } // unix ms, inclusive

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		fires:   make(map[timer.FireID]Duty),
		spans:   make(map[timer.ID]span),
		inOrder: make(map[timer.ID]time.Duration),
	}
}

// Add adds one fire. The last duty counts for a fire that is added twice.
func (l *Ledger) Add(id timer.ID, due time.Time, d Duty) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(id, due.UnixMilli(), d)
}

// AddEvery adds a timer's fires at each multiple of step since 1970 in [from, to), as cron counts
// seconds. It returns their number. The timer's other fires in that range become unexpected.
func (l *Ledger) AddEvery(id timer.ID, step time.Duration, from, to time.Time, d Duty) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms, n := step.Milliseconds(), 0
	for due := (from.UnixMilli() + ms - 1) / ms * ms; due < to.UnixMilli(); due += ms {
		l.add(id, due, d)
		n++
	}
	return n
}

// InOrder requires that the timer's fires which are later than late start in the order of their due
// instants.
func (l *Ledger) InOrder(id timer.ID, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inOrder[id] = late
}

func (l *Ledger) add(id timer.ID, due int64, d Duty) {
	l.fires[timer.FireID{Timer: id, DueMS: due}] = d
	s, ok := l.spans[id]
	if !ok {
		s = span{due, due}
	}
	l.spans[id] = span{min(s.from, due), max(s.to, due)}
}

// Len returns the number of fires that must be called.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, d := range l.fires {
		if d == Must || d == Fail {
			n++
		}
	}
	return n
}

// Timers returns the ids of the timers in the ledger.
func (l *Ledger) Timers() []timer.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]timer.ID, 0, len(l.spans))
	for id := range l.spans {
		ids = append(ids, id)
	}
	return ids
}

// Last returns when the last fire is due, or the zero time if there is none.
func (l *Ledger) Last() (last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.fires {
		if due := time.UnixMilli(id.DueMS); due.After(last) {
			last = due
		}
	}
	return last
}

// CountMissing returns how many fires that must be called are not in seen.
func (l *Ledger) CountMissing(seen map[timer.FireID]bool) (missing int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f, d := range l.fires {
		if (d == Must || d == Fail) && !seen[f] {
			missing++
		}
	}
	return missing
}

// Remove removes a fire.
func (l *Ledger) Remove(id timer.FireID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.fires, id)
}
