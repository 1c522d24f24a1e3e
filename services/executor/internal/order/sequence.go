package order

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// sequence holds a timer's late fires in order of due time.
type sequence struct {
	epoch      int64
	knownMS    int64         // all due times up to here have been read
	open       []*timer.Fire // not attempted when last read, by due time; later fires wait for them
	waiting    []*LateFire   // by due time
	passed     time.Time     // when the last fire started or ended
	progressAt time.Time     // last progress, or when the first fire began to wait
	polledAt   time.Time     // the last poll
	blind      bool          // the last poll failed
}

// LateFire is a waiting fire, with the data to find the due times before it.
type LateFire struct {
	*inflight.Entry

	id    timer.FireID // the fire belongs to a worker again once it starts
	Timer *timer.Timer // as far as the planner needs it
	// Earlier fires count if catchUpMS <= planned run time < untilMS, and of those only the latest
	// limit ones, and the latest limit ones from sinceMS on.
	SinceMS, UntilMS, CatchUpMS int64
	Limit                       int
	// Deferred reports that the store may hold back earlier fires of the timer: its pause has ended,
	// and the store has not released them yet.
	Deferred bool
}

// ready reports whether the first waiting fire may start.
func (seq *sequence) ready() bool {
	return len(seq.waiting) > 0 && seq.waiting[0].id.DueMS <= seq.knownMS &&
		(len(seq.open) == 0 || seq.open[0].DueMS >= seq.waiting[0].id.DueMS)
}

// begin removes the first waiting fire. Later ones wait until it has started.
func (seq *sequence) begin() *inflight.Entry {
	w := seq.waiting[0]
	seq.waiting = seq.waiting[1:]
	w.Ordered = true
	seq.add(&w.Fire)
	seq.progressAt = time.Now()
	return w.Entry
}

func (seq *sequence) find(dueMS int64) (int, bool) {
	return slices.BinarySearchFunc(
		seq.open,
		dueMS,
		func(f *timer.Fire, due int64) int { return cmp.Compare(f.DueMS, due) },
	)
}

// add records a fire that later ones wait for.
func (seq *sequence) add(f *timer.Fire) {
	row := *f
	if i, there := seq.find(f.DueMS); there {
		seq.open[i] = &row
	} else {
		seq.open = slices.Insert(seq.open, i, &row)
	}
}

// remove records that nothing waits for a fire any more.
func (seq *sequence) remove(dueMS int64) {
	if i, there := seq.find(dueMS); there {
		seq.open = slices.Delete(seq.open, i, i+1)
		seq.progressAt = time.Now()
	}
}

// beyond returns the waiting fires after knownMS.
func (seq *sequence) beyond() []*LateFire { return seq.waiting[seq.index(seq.knownMS+1):] }

// index returns the position of a due time among the waiting fires.
func (seq *sequence) index(dueMS int64) int {
	i, _ := slices.BinarySearchFunc(
		seq.waiting,
		dueMS,
		func(w *LateFire, due int64) int { return cmp.Compare(w.id.DueMS, due) },
	)
	return i
}

// heldBack reports whether the waiting fires joined while their timer was active, and the store
// holds back an earlier one because it is not.
func (seq *sequence) heldBack() bool {
	return len(seq.waiting) > 0 && !seq.waiting[0].Deferred &&
		slices.ContainsFunc(
			seq.front(),
			func(f *timer.Fire) bool { return f.RunAtMS == timer.DeferredMS },
		)
}

// front returns the first fires that others wait for.
func (seq *sequence) front() []*timer.Fire {
	if len(seq.waiting) == 0 {
		return nil
	}
	i, _ := seq.find(seq.waiting[0].id.DueMS)
	return seq.open[:min(i, frontMax)]
}
