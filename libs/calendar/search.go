package calendar

import (
	"encoding/binary"
	"sort"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Search finds instants that all calendars of a set allow. It steps through the periods in which
// neither an offset of a zone nor the set of calendars with an included date changes. There the
// calendars allow the same times every week, except for excluded dates. So the cost depends on the
// number of clock changes and named dates, and not on the number of ranges. One goroutine uses it.
type Search struct {
	set   *Set
	zone  *zone.Table
	keeps func(from, to, offset int64) bool
	known map[string][]span // the common times of a week, by key
	key   []byte            // what they depend on: offsets and included dates

	now period
}

// period is the range of instants [from, to) with the same times every week.
type period struct {
	from, to int64
	begin    int64   // where the stretch of Search.zone begins
	week     []span  // seconds since Sunday 00:00 UTC
	rules    []dated // the calendars whose excluded dates apply
}

// dated is a calendar and its offset.
type dated struct {
	*Rules

	offset int64
}

// maxKnown limits the memory of a search, to 5 MB in the worst case.
const maxKnown = 256

const (
	secondsPerWeek = daysPerWeek * secondsPerDay
	weekOfEpoch    = 4 * secondsPerDay // 1970-01-01 was a Thursday
)

// Search returns a search for times that a schedule may have too. keeps reports whether the
// schedule may have instants in a range of a week, in seconds since Sunday 00:00 UTC, while the
// given zone has an offset. Without keeps it has some at every time.
func (s *Set) Search(z *zone.Table, keeps func(from, to, offset int64) bool) *Search {
	return &Search{set: s, zone: z, keeps: keeps, known: make(map[string][]span)}
}

// Next returns the first instant at or after the given one that is allowed and kept, or at which
// the zone of the search changes its offset. It returns Never if that is not before until.
func (q *Search) Next(unix, until int64) int64 {
	steps := 0
	return q.next(unix, until, &steps)
}

func (q *Search) next(unix, until int64, steps *int) int64 {
	for until = min(until, searchTo); unix < until; *steps++ {
		if q.enter(unix); unix == q.now.begin {
			return unix
		}
		at := q.now.next(unix)
		if at >= q.now.to {
			unix = q.now.to
			continue
		}
		if unix = q.now.afterExcluded(at); unix == at && at < until {
			return at
		}
	}
	return Never
}

// prev returns the last instant at or before the given one that is allowed and kept, or -Never.
func (q *Search) prev(unix int64, steps *int) int64 {
	for ; unix >= searchFrom; *steps++ {
		q.enter(unix)
		at := q.now.prev(unix)
		if at < q.now.from {
			unix = q.now.from - 1
			continue
		}
		if unix = q.now.beforeExcluded(at); unix == at {
			return at
		}
	}
	return -Never
}

// enter finds the period of an instant.
func (q *Search) enter(unix int64) {
	if q.now.from <= unix && unix < q.now.to {
		return
	}
	p := period{from: -Never, to: Never, begin: -Never, rules: q.now.rules[:0]}
	q.key = q.key[:0]
	for _, r := range q.set.rules {
		offset := p.narrow(r.zone, unix)
		form := p.narrowToDates(r, unix, offset)
		if form == weekly {
			p.rules = append(p.rules, dated{r, offset})
		}
		q.key = append(binary.AppendVarint(q.key, offset), byte(form))
	}
	var offset int64
	if q.zone != nil {
		offset = p.narrow(q.zone, unix)
		p.begin = q.zone.Start(q.zone.At(unix))
		q.key = binary.AppendVarint(q.key, offset)
	}
	week, ok := q.known[string(q.key)]
	if !ok {
		if len(q.known) == maxKnown {
			clear(q.known)
		}
		week = q.commonWeek(unix, offset)
		q.known[string(q.key)] = week
	}
	p.week = week
	q.now = p
}

// narrow ends the period where the offset of a zone changes, and returns the offset.
func (p *period) narrow(z *zone.Table, unix int64) int64 {
	i := z.At(unix)
	p.from, p.to = max(p.from, z.Start(i)), min(p.to, z.End(i))
	return z.Offset(i)
}

// form is which times of a calendar apply on a day.
type form byte

const (
	weekly   form = iota // those of its weekday, unless the date is excluded
	included             // those of an included date
	outside              // none: the day is not from 1970 to 2199
)

// narrowToDates ends the period where the form of a calendar changes, and returns the form.
func (p *period) narrowToDates(r *Rules, unix, offset int64) form {
	day := floorDay(unix + offset)
	var first, end int64
	form := weekly
	switch {
	case day < firstDay:
		first, end, form = -Never/secondsPerDay, firstDay, outside
	case day >= lastDay:
		first, end, form = lastDay, Never/secondsPerDay, outside
	case has(r.included, int32(day)):
		first, end, form = day, day+1, included
	default:
		first, end = prevOf(r.included, day)+1, nextOf(r.included, day)
	}
	p.from = max(p.from, first*secondsPerDay-offset)
	p.to = min(p.to, end*secondsPerDay-offset)
	return form
}

// commonWeek returns the times of a week that all calendars allow and the schedule may have.
func (q *Search) commonWeek(unix, offset int64) []span {
	week := []span{{0, secondsPerWeek}}
	for _, r := range q.set.rules {
		o := r.zone.OffsetAt(unix)
		week = common(week, r.week((&period{}).narrowToDates(r, unix, o), o))
	}
	if q.keeps == nil {
		return week
	}
	kept := week[:0]
	for _, s := range week {
		if q.keeps(int64(s.from), int64(s.to), offset) {
			kept = append(kept, s)
		}
	}
	return kept
}

// week returns the allowed times of a week, in seconds since Sunday 00:00 UTC.
func (r *Rules) week(form form, offset int64) []span {
	var out []span
	for w := range daysPerWeek {
		spans := r.weekly(w)
		switch form {
		case included:
			spans = r.onIncluded
		case outside:
			return nil
		case weekly:
		}
		for _, s := range spans {
			from := floorMod(int64(w)*secondsPerDay+int64(s.from)-offset, secondsPerWeek)
			to := from + int64(s.to-s.from)
			//nolint:gosec // seconds of a week
			out = append(out, span{int32(from), int32(min(to, secondsPerWeek))})
			if to > secondsPerWeek {
				out = append(out, span{0, int32(to - secondsPerWeek)}) //nolint:gosec // as above
			}
		}
	}
	return merged(out)
}

// next returns the first instant of the common times at or after the given one, or Never. It does
// not look at excluded dates, nor at the end of the period.
func (p *period) next(unix int64) int64 {
	if len(p.week) == 0 {
		return Never
	}
	second := floorMod(unix+weekOfEpoch, secondsPerWeek)
	i := sort.Search(len(p.week), func(i int) bool { return int64(p.week[i].to) > second })
	if i == len(p.week) {
		return unix - second + secondsPerWeek + int64(p.week[0].from)
	}
	return unix - second + max(second, int64(p.week[i].from))
}

// prev is next backwards.
func (p *period) prev(unix int64) int64 {
	if len(p.week) == 0 {
		return -Never
	}
	second := floorMod(unix+weekOfEpoch, secondsPerWeek)
	i := sort.Search(len(p.week), func(i int) bool { return int64(p.week[i].from) > second }) - 1
	if i < 0 {
		return unix - second - secondsPerWeek + int64(p.week[len(p.week)-1].to) - 1
	}
	return unix - second + min(second, int64(p.week[i].to)-1)
}

// afterExcluded returns the end of the excluded dates of an instant, or the instant.
func (p *period) afterExcluded(unix int64) int64 {
	out := unix
	for _, r := range p.rules {
		//nolint:gosec // the form weekly is from firstDay to lastDay
		if day := floorDay(unix + r.offset); has(r.excluded, int32(day)) {
			out = max(out, (day+1)*secondsPerDay-r.offset)
		}
	}
	return min(out, p.to)
}

// beforeExcluded returns the last second before the excluded dates of an instant, or the instant.
func (p *period) beforeExcluded(unix int64) int64 {
	out := unix
	for _, r := range p.rules {
		//nolint:gosec // as in afterExcluded
		if day := floorDay(unix + r.offset); has(r.excluded, int32(day)) {
			out = min(out, day*secondsPerDay-r.offset-1)
		}
	}
	return max(out, p.from-1)
}

func floorMod(a, b int64) int64 { return (a%b + b) % b }
