package schedule

import (
	"slices"
	"sync"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// stretch is an excluded stretch whose instants were moved.
type stretch struct{ begin, anchorMS int64 }

// stretches caches where the instants of excluded stretches were moved: ascending, without duplicates.
// Without it, a search would compute all stretches of a day again for every instant of the day.
type stretches struct {
	mu   sync.RWMutex
	due  map[stretch][]int64
	size int // of the lists, one more for each
}

// maxStretches limits the size of a cache, to some 64 kB. A day has a few stretches; with eight
// calendars of many times each, some hundreds, of which few have more than one instant.
const maxStretches = 4096

func (s *stretches) get(of stretch) (due []int64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	due, ok = s.due[of]
	return due, ok
}

// put forgets everything when the cache is full: searches move on, and rarely come back.
func (s *stretches) put(of stretch, due []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size += len(due) + 1; s.due == nil || s.size > maxStretches {
		s.due, s.size = make(map[stretch][]int64), len(due)+1
	}
	s.due[of] = due
}

// moved returns the target instants of an excluded stretch. at is an instant of the schedule in
// that stretch, which ends at open.
func (p *Parsed) moved(at, open, anchorMS int64) []int64 {
	begin := p.stretchStart(at)
	of := stretch{begin, anchorMS}
	if known, ok := p.movedCache.get(of); ok {
		return known
	}
	var found []int64
	due := begin*1000 - 1
	for range MaxMoved {
		if due = p.candidate(due, anchorMS); due == timer.NeverMS || floorDiv(due, 1000) >= open {
			break
		}
		if to := p.move(due, begin, open, anchorMS); to >= p.startMS && to < p.endMS {
			found = append(found, to)
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	p.movedCache.put(of, found)
	return found
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
	if p.calendars == nil || due >= p.endMS {
		return due
	}
	if p.excluded == timer.ExcludedNext {
		at := floorDiv(due, 1000)
		if open := p.calendars.NextAllowed(at); open != at {
			return p.moveTo(due, open)
		}
		return due
	}
	chain := *p
	chain.parts = []instants{every{ms: p.everyMS, anchor: due, fixed: true}}
	return chain.onlyAllowed(due-1, 0)
}
