package schedule

import (
	"slices"
	"sync/atomic"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// stretch caches where the instants of one excluded stretch were moved.
type stretch struct {
	begin, anchorMS int64
	due             []int64 // ascending, without duplicates
}

// stretches is a small cache. Without it a backward search would recompute the same stretches for
// every instant of a day. Entries are overwritten freely: concurrent searches store equal values. A
// day needs four entries at most, which is 16 kB in the worst case.
type stretches struct {
	places    [4]atomic.Pointer[stretch]
	nextPlace atomic.Uint32
}

func (s *stretches) get(begin, anchorMS int64) *stretch {
	for i := range s.places {
		if known := s.places[i].Load(); known != nil && known.begin == begin &&
			known.anchorMS == anchorMS {
			return known
		}
	}
	return nil
}

func (s *stretches) put(known *stretch) {
	s.places[s.nextPlace.Add(1)%uint32(len(s.places))].Store(known)
}

// moved returns the target instants of an excluded stretch. at is an instant of the schedule in
// that stretch, which ends at open.
func (p *Parsed) moved(at, open, anchorMS int64) []int64 {
	begin := p.stretchStart(at)
	if known := p.movedCache.get(begin, anchorMS); known != nil {
		return known.due
	}
	s := &stretch{begin: begin, anchorMS: anchorMS}
	due := begin*1000 - 1
	for range MaxMoved {
		if due = p.candidate(due, anchorMS); due == timer.NeverMS || floorDiv(due, 1000) >= open {
			break
		}
		if to := p.move(due, begin, open, anchorMS); to >= p.startMS && to < p.endMS {
			s.due = append(s.due, to)
		}
	}
	slices.Sort(s.due)
	s.due = slices.Compact(s.due)
	p.movedCache.put(s)
	return s.due
}

// move returns where an instant of the excluded stretch [begin, open) moves, or timer.NeverMS.
func (p *Parsed) move(dueMS, begin, open, anchorMS int64) int64 {
	if p.excluded == timer.ExcludedNext {
		return p.moveTo(dueMS, open)
	}
	if begin == 0 {
		return timer.NeverMS
	}
	to := p.moveTo(dueMS, begin-1)
	if p.kind.OneShot() {
		to = max(to, anchorMS) // no fire before the timer's activation
	}
	return to
}

// moveTo moves an instant to the day of the nearest allowed instant. It keeps its time of day if
// that is allowed there; otherwise it moves to the nearest allowed instant. On its own day its time
// is excluded, so there is nothing to keep.
func (p *Parsed) moveTo(dueMS, nearest int64) int64 {
	at := floorDiv(dueMS, 1000)
	if nearest == calendar.Never {
		return timer.NeverMS
	}
	local := at + p.zone.OffsetAt(at)
	day := floorDiv(local, secondsPerDay)
	to := floorDiv(nearest+p.zone.OffsetAt(nearest), secondsPerDay)
	if to != day {
		kept := p.zone.Resolve(to*secondsPerDay + local - day*secondsPerDay)
		if (kept > at) == (nearest > at) && p.calendars.Allows(kept) {
			return kept*1000 + dueMS - at*1000
		}
	}
	return nearest * 1000
}

// afterDelay returns the only instant of a fixed delay. Under the policy "skip" an excluded instant
// counts as a fire that took no time. The next one is a delay later, so the chain continues.
func (p *Parsed) afterDelay(anchorMS int64) int64 {
	due := max(anchorMS+p.everyMS, p.startMS)
	for due < p.endMS && p.calendars != nil {
		at := floorDiv(due, 1000)
		open := p.calendars.NextAllowed(at)
		switch {
		case open == at:
			return due
		case open == calendar.Never:
			return timer.NeverMS
		case p.excluded == timer.ExcludedNext:
			return p.moveTo(due, open)
		}
		due += (open*1000 - due + p.everyMS - 1) / p.everyMS * p.everyMS
	}
	return due
}
