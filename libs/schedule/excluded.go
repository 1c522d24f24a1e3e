package schedule

import (
	"slices"

	"github.com/carillon-timer/carillon/libs/calendar"
	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxMoved is how many instants of one excluded stretch are moved; the rest are skipped. It limits
// the cost of dense schedules: an every-second cron has 172,800 instants in a weekend, which would
// all move to Monday.
const MaxMoved = 500

// allowed returns the first due instant after afterMS under the calendars.
func (p *Parsed) allowed(afterMS, anchorMS int64) int64 {
	switch p.excluded {
	case timer.ExcludedNext:
		return p.allowedOrLater(max(afterMS, -1), anchorMS)
	case timer.ExcludedPrevious:
		return p.allowedOrEarlier(max(afterMS, -1), anchorMS)
	case "", timer.ExcludedSkip:
	}
	return p.onlyAllowed(afterMS, anchorMS) // checkCalendars refuses others
}

// onlyAllowed skips from an excluded instant to the start of the next allowed stretch.
func (p *Parsed) onlyAllowed(afterMS, anchorMS int64) int64 {
	for range quickSteps {
		due := p.candidate(afterMS, anchorMS)
		if due == timer.NeverMS {
			return due
		}
		at := floorDiv(due, 1000)
		switch open := p.calendars.NextAllowed(at); open {
		case at:
			return due
		case calendar.Never:
			return timer.NeverMS
		default:
			afterMS = open*1000 - 1
		}
	}
	first := timer.NeverMS
	for i := range p.parts {
		first = min(first, p.nextOf(p.parts[i:i+1], afterMS, min(first, p.endMS), anchorMS))
	}
	return first
}

// allowedOrLater searches when excluded instants move forward, to the day on which the next allowed
// stretch begins. So the next instant may come from any excluded stretch that ends on its day or
// later. Instants of stretches after the first allowed instant move behind it.
func (p *Parsed) allowedOrLater(afterMS, anchorMS int64) int64 {
	best := timer.NeverMS
	for cursor := p.stretchOfDay(floorDiv(afterMS, 1000))*1000 - 1; ; {
		due := p.candidate(cursor, anchorMS)
		if due == timer.NeverMS {
			return best
		}
		at := floorDiv(due, 1000)
		open := p.calendars.NextAllowed(at)
		switch {
		case open == at && due > afterMS:
			return min(best, due)
		case open == at:
			cursor = max(due, min(millis(p.calendars.NextExcluded(at))-1, afterMS))
			continue
		case open == calendar.Never || open*1000 >= best:
			return best
		}
		best = min(best, firstAfter(p.moved(at, open, anchorMS), afterMS))
		cursor = open*1000 - 1
	}
}

// stretchOfDay returns the start of the day of an instant. If an excluded stretch contains or ends
// at that start, it returns the start of the stretch.
func (p *Parsed) stretchOfDay(at int64) int64 { return p.stretchStart(p.dayStart(at) - 1) }

// stretchStart returns the start of the excluded stretch of an instant, or 0 if it has none.
func (p *Parsed) stretchStart(at int64) int64 {
	return max(p.calendars.PrevAllowed(at), -1) + 1
}

// dayStart returns the first instant of the local day of an instant.
func (p *Parsed) dayStart(at int64) int64 {
	local := at + p.zone.OffsetAt(at)
	return p.zone.Resolve(floorDiv(local, secondsPerDay) * secondsPerDay)
}

// allowedOrEarlier searches when excluded instants move back, to the day on which the previous
// allowed stretch ends. So instants may move before the first allowed instant after afterMS, from
// excluded stretches that begin on its day. Later stretches do not matter, which limits the search.
func (p *Parsed) allowedOrEarlier(afterMS, anchorMS int64) int64 {
	best := timer.NeverMS
	for cursor := afterMS; ; {
		due := p.candidate(cursor, anchorMS)
		if due == timer.NeverMS {
			return best
		}
		at := floorDiv(due, 1000)
		if open := p.calendars.NextAllowed(at); open != at {
			begin := p.stretchStart(at)
			if begin > 0 {
				if p.dayStart(begin-1)*1000 >= best {
					return best
				}
				best = min(best, firstAfter(p.moved(at, open, anchorMS), afterMS))
			}
			if open == calendar.Never {
				return best
			}
			cursor = open*1000 - 1
			continue
		}
		best = min(best, due)
		shut := p.calendars.NextExcluded(at)
		if shut == calendar.Never || p.dayStart(shut-1)*1000 >= best {
			return best
		}
		cursor = shut*1000 - 1
	}
}

// millis converts seconds, which may be calendar.Never, to milliseconds.
func millis(unix int64) int64 {
	if unix == calendar.Never {
		return timer.NeverMS
	}
	return unix * 1000
}

func firstAfter(sorted []int64, afterMS int64) int64 {
	i, _ := slices.BinarySearch(sorted, afterMS+1)
	if i < len(sorted) {
		return sorted[i]
	}
	return timer.NeverMS
}
