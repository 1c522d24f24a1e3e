package calendar

import (
	"encoding/binary"
	"slices"
	"sort"

	"github.com/carillon-timer/carillon/libs/zone"
)

// Search finds instants that all calendars of a set allow. It steps through the periods in which
// neither an offset of a zone nor the set of calendars with an included date changes. There the
// calendars allow the same times every week, except for excluded dates. So the cost depends on the
// number of clock changes and named dates, and hardly on the number of ranges: the common times of a
// week are computed once for all long periods that have the same. A period of a day or less, such as
// the part of an included date, has few times, and they are compared one by one. One goroutine uses
// it.
type Search struct {
	set   *Set
	zone  *zone.Table
	keeps func(from, to, offset int64) bool
	weeks [][]timesOfWeek   // those of each calendar that were asked for
	known map[string][]span // the common times of a week, by key
	key   []byte            // what they depend on: offsets and included dates

	now period
}

// timesOfWeek are the times of a calendar, in seconds since Sunday 00:00 UTC.
type timesOfWeek struct {
	form   form
	offset int64
	spans  []span
}

// period is the range of instants [from, to) with the same times every week.
type period struct {
	from, to int64
	begin    int64    // where the stretch of Search.zone begins
	offset   int64    // of Search.zone
	short    bool     // a day or less
	week     []span   // the common times, unless it is short
	each     [][]span // the times of each calendar
	rules    []dated  // the calendars whose excluded dates apply
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
	return &Search{
		set: s, zone: z, keeps: keeps,
		weeks: make([][]timesOfWeek, len(s.rules)), known: make(map[string][]span),
	}
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
		at := q.nextCommon(unix)
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
		at := q.prevCommon(unix)
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
	p := period{
		from:  -Never,
		to:    Never,
		begin: -Never,
		rules: q.now.rules[:0],
		each:  q.now.each[:0],
	}
	q.key = q.key[:0]
	for i, r := range q.set.rules {
		offset := p.narrow(r.zone, unix)
		form := p.narrowToDates(r, unix, offset)
		if form == weekly {
			p.rules = append(p.rules, dated{r, offset})
		}
		p.each = append(p.each, q.week(i, form, offset))
		q.key = append(binary.AppendVarint(q.key, offset), byte(form))
	}
	if q.zone != nil {
		p.offset = p.narrow(q.zone, unix)
		p.begin = q.zone.Start(q.zone.At(unix))
		q.key = binary.AppendVarint(q.key, p.offset)
	}
	if p.short = p.to-p.from <= secondsPerDay; !p.short {
		p.week = q.commonWeek(&p)
	}
	q.now = p
}

// week returns the times of a calendar.
func (q *Search) week(rule int, form form, offset int64) []span {
	for _, w := range q.weeks[rule] {
		if w.form == form && w.offset == offset {
			return w.spans
		}
	}
	spans := q.set.rules[rule].week(form, offset)
	q.weeks[rule] = append(q.weeks[rule], timesOfWeek{form, offset, spans})
	return spans
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
func (q *Search) commonWeek(p *period) []span {
	if week, ok := q.known[string(q.key)]; ok {
		return week
	}
	week := []span{{0, secondsPerWeek}}
	for _, spans := range p.each {
		week = common(week, spans)
	}
	if q.keeps != nil {
		week = slices.DeleteFunc(week, func(s span) bool {
			return !q.keeps(int64(s.from), int64(s.to), p.offset)
		})
	}
	if len(q.known) == maxKnown {
		clear(q.known)
	}
	q.known[string(q.key)] = week
	return week
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
			from := inWeek(int64(w)*secondsPerDay + int64(s.from) - offset)
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

// nextCommon returns the first instant of the common times at or after the given one, or one that is
// not in the period. It does not look at excluded dates.
func (q *Search) nextCommon(unix int64) int64 {
	p := &q.now
	if !p.short {
		from, _ := next(p.week, unix)
		return from
	}
	for unix < p.to {
		from, to := unix, p.to
		for i := 0; i < len(p.each) && from < p.to; i++ {
			at, end := next(p.each[i], from)
			if to = min(to, end); at > from {
				from, to, i = at, p.to, -1 // all others again
			}
		}
		if from >= p.to || q.keeping(from, to) {
			return from
		}
		unix = to
	}
	return unix
}

// prevCommon is nextCommon backwards.
func (q *Search) prevCommon(unix int64) int64 {
	p := &q.now
	if !p.short {
		_, last := prev(p.week, unix)
		return last
	}
	for unix >= p.from {
		first, last := p.from, unix
		for i := 0; i < len(p.each) && last >= p.from; i++ {
			begin, at := prev(p.each[i], last)
			if first = max(first, begin); at < last {
				first, last, i = p.from, at, -1
			}
		}
		if last < p.from || q.keeping(first, last+1) {
			return last
		}
		unix = first - 1
	}
	return unix
}

// keeping reports whether the schedule may have instants in a range of the period, within a week.
func (q *Search) keeping(from, to int64) bool {
	second := inWeek(from + weekOfEpoch)
	return q.keeps == nil || q.keeps(second, second+to-from, q.now.offset)
}

// next returns the first span of a week's times that ends after an instant: from its begin, or from
// the instant if that is later. Without times it returns Never.
func next(week []span, unix int64) (from, to int64) {
	if len(week) == 0 {
		return Never, Never
	}
	second := inWeek(unix + weekOfEpoch)
	i := sort.Search(len(week), func(i int) bool { return int64(week[i].to) > second })
	begin := unix - second
	if i == len(week) {
		i, begin = 0, begin+secondsPerWeek
	}
	return max(unix, begin+int64(week[i].from)), begin + int64(week[i].to)
}

// prev returns the last span of a week's times that begins at or before an instant: its first second,
// and its last one, or the instant if that is earlier. Without times it returns -Never.
func prev(week []span, unix int64) (first, last int64) {
	if len(week) == 0 {
		return -Never, -Never
	}
	second := inWeek(unix + weekOfEpoch)
	i := sort.Search(len(week), func(i int) bool { return int64(week[i].from) > second }) - 1
	begin := unix - second
	if i < 0 {
		i, begin = len(week)-1, begin-secondsPerWeek
	}
	return begin + int64(week[i].from), min(unix, begin+int64(week[i].to)-1)
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

// inWeek returns seconds modulo a week, from 0 on.
func inWeek(seconds int64) int64 {
	return (seconds%secondsPerWeek + secondsPerWeek) % secondsPerWeek
}
