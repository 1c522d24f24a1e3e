package schedule

import (
	"time"
)

// overlaps lists the instants in (fromMS, toMS] that the overlap policy drops. The spec has them in
// both passes, and the policy keeps one. At least limit of them are listed, if there are so many.
func (p *Parsed) overlaps(w *wall, fromMS, toMS int64, limit int) []ForecastExclusion {
	if !w.first && !w.second {
		return nil
	}
	reason := `overlap: second pass of a repeated local time, and the policy is "first"`
	if w.second {
		reason = `overlap: first pass of a repeated local time, and the policy is "second"`
	}
	both := *w
	both.first, both.second = false, false
	z := w.zone
	var out []ForecastExclusion
	for i := max(1, z.At(floorDiv(fromMS, 1000))); i < z.Len() && (z.Start(i)-secondsPerDay)*1000 <= toMS && len(out) < limit; i++ {
		if length := z.Offset(i-1) - z.Offset(i); length > 0 {
			out = append(
				out,
				p.droppedByOverlap(
					w,
					&both,
					z.Start(i)-length-1,
					z.Start(i)+length,
					fromMS,
					toMS,
					reason,
					limit,
				)...)
		}
	}
	return out
}

// droppedByOverlap lists the instants in (after, before) and in (fromMS, toMS] that both has and w
// has not.
func (p *Parsed) droppedByOverlap(
	w, both *wall,
	after, before, fromMS, toMS int64,
	reason string,
	limit int,
) []ForecastExclusion {
	var out []ForecastExclusion
	for at := max(after*1000, fromMS); len(out) < limit; {
		if at = both.next(at, 0); at >= before*1000 || at > toMS || at >= p.endMS {
			return out
		}
		if at >= p.startMS && w.next(at-1, 0) != at {
			out = append(out, p.exclusion(at, reason))
		}
	}
	return out
}

// droppedByGap lists the missing local times in (fromMS, toMS] under the policy "skip". Under
// "shift" none is dropped.
func (p *Parsed) droppedByGap(w *wall, fromMS, toMS int64, limit int) []ForecastExclusion {
	if w.everyHour || w.shift {
		return nil
	}
	z := w.zone
	fromMS, toMS = max(fromMS, p.startMS-1), min(toMS, p.endMS-1)
	var out []ForecastExclusion
	for i := max(1, z.At(floorDiv(fromMS, 1000))); i < z.Len() && len(out) < limit; i++ {
		begin, was := z.Start(i), z.Offset(i-1)
		if begin*1000 > toMS {
			break
		}
		first := max(begin, floorDiv(fromMS, 1000)+1) // with the offset before the gap
		for local := w.cron.next(first + was); local != none && local < begin+z.Offset(i) && (local-was)*1000 <= toMS && len(out) < limit; local = w.cron.next(local + 1) {
			out = append(out, ForecastExclusion{
				Due: time.Unix(local-was, 0).
					UTC(),
				Reason: `gap: this local time does not exist, and the policy is "skip"`,
				Local:  localText(time.Unix(local-was, 0), was),
			})
		}
	}
	return out
}
