package ledger

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Duty says what a fire owes.
type Duty uint8

// The duties.
const (
	Must Duty = iota // it is called, and ends delivered
	Fail             // it is called, and ends failed
	May              // it may be called or skipped: it was due while its timer's status changed
	Not              // it is not called: a skip, or nothing at all
)

// Ledger is what is to happen. It is safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex
	fires map[timer.FireID]Duty
	// from the first to the last instant that a timer's fires are judged in; others of its fires
	// are not looked at.
	spans map[timer.ID]span
	// how late the fires of a timer are that begin in order of due.
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

// Add enters one fire. An instant entered twice owes what was said last.
func (l *Ledger) Add(id timer.ID, due time.Time, d Duty) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(id, due.UnixMilli(), d)
}

// AddEvery enters the fires of a timer at each multiple of step (since 1970, as cron counts seconds)
// in [from, to), and judges the timer in that stretch.
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

// InOrder enters that the fires of a timer which begin later than that begin in order of due.
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

// Len returns how many fires must be called.
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

// Timers returns the timers entered.
func (l *Ledger) Timers() []timer.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]timer.ID, 0, len(l.spans))
	for id := range l.spans {
		ids = append(ids, id)
	}
	return ids
}

// CountMissing tells whether every fire that must be called has arrived at least once; missing is how
// many have not.
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

// Remove takes back a fire that was entered.
func (l *Ledger) Remove(id timer.FireID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.fires, id)
}
