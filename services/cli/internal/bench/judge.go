package bench

import (
	"cmp"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// expected is the timers of a group after their creation, sorted by id.
type expected struct {
	group

	timers []expectedTimer
}

type expectedTimer struct {
	id    timer.ID
	dueMS int64 // of a one-shot
}

func expect(g *group, ids []timer.ID) *expected {
	e := &expected{group: *g, timers: make([]expectedTimer, len(ids))}
	for i, id := range ids {
		e.timers[i].id = id
		if g.spec == "" {
			e.timers[i].dueMS = g.due(i).UnixMilli()
		}
	}
	slices.SortFunc(e.timers, func(a, b expectedTimer) int { return cmp.Compare(a.id, b.id) })
	return e
}

// fires returns how many fires count.
func (e *expected) fires() int { return len(e.timers) * e.group.fires() }

// counts reports whether a call is of a fire that counts. known is false for timers of others.
func (e *expected) counts(a *Arrival) (counts, known bool) {
	i, known := slices.BinarySearchFunc(
		e.timers, a.Timer, func(t expectedTimer, id timer.ID) int { return cmp.Compare(t.id, id) })
	if !known {
		return false, false
	}
	if e.spec == "" {
		return a.DueMS == e.timers[i].dueMS, true
	}
	from, until := e.from.UnixMilli(), e.until.UnixMilli()
	return a.DueMS >= from && a.DueMS < until &&
		(a.DueMS-from)%e.step.Milliseconds() == 0, true
}

// judge compares what came with what was due. It sorts the arrivals.
func judge(groups []*expected, all []Arrival) []GroupResult {
	slices.SortFunc(all, func(a, b Arrival) int {
		return cmp.Or(
			cmp.Compare(a.Timer, b.Timer),
			cmp.Compare(a.DueMS, b.DueMS),
			cmp.Compare(a.ArrivedUS, b.ArrivedUS),
		)
	})
	results := make([]GroupResult, len(groups))
	late, atReceiver := make([][]float64, len(groups)), make([][]float64, len(groups))
	last := make([]int64, len(groups))
	var before *Arrival
	for i := range all {
		a := &all[i]
		for g, e := range groups {
			counts, known := e.counts(a)
			if !known {
				continue
			}
			if !counts {
				break
			}
			r := &results[g]
			if a.StartMS < a.DueMS {
				r.Early++
			}
			if before != nil && before.Timer == a.Timer && before.DueMS == a.DueMS {
				r.Repeated++
				break
			}
			r.Received++
			last[g] = max(last[g], a.ArrivedUS)
			late[g] = append(late[g], float64(a.StartMS-a.DueMS))
			atReceiver[g] = append(
				atReceiver[g], float64(a.ArrivedUS-a.DueMS*1000)/1000) //nolint:mnd // µs
			break
		}
		before = a
	}
	for g, e := range groups {
		r := &results[g]
		r.Name, r.Fires = e.name, e.fires()
		r.Missing = r.Fires - r.Received
		r.Lateness = quantiles(late[g])
		r.Histogram = histogram(late[g])
		r.AtReceiver = quantiles(atReceiver[g])
		if first := e.firstDue(); last[g] > 0 {
			r.LastArrival = time.UnixMicro(last[g]).Sub(first).Seconds()
			r.PerSecond = float64(r.Received) / max(r.LastArrival, time.Millisecond.Seconds())
		}
	}
	return results
}

// firstDue returns the first instant of the group.
func (e *expected) firstDue() time.Time {
	if e.spec != "" {
		return e.from
	}
	return e.due(0)
}
