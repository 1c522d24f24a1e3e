package memwindow

import (
	"cmp"
	"slices"
	"sort"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// entries are the entries of one slice: a sorted part, and the entries put since it was sorted. Put
// appends, and reads sort and merge. So neither many puts nor many reads of a large slice cost its
// whole size each time.
type entries struct {
	generation string
	sorted     []timer.Fire
	unsorted   []timer.Fire
}

// minMerge is how many unsorted entries trigger a merge without a read. The merge removes entries
// that were put twice.
const minMerge = 1024

func (m *entries) len() int { return len(m.sorted) + len(m.unsorted) }

func (m *entries) put(f timer.Fire) {
	f.Owner, f.TargetBits = 0, 0
	m.unsorted = append(m.unsorted, f)
	if len(m.unsorted) >= max(minMerge, len(m.sorted)) {
		m.merge()
	}
}

// compare orders entries by run time, then by identity (fire and revision).
func compare(a, b timer.Fire) int {
	if c := cmp.Compare(a.RunAtMS, b.RunAtMS); c != 0 {
		return c
	}
	if c := timer.CompareFires(a, b); c != 0 {
		return c
	}
	return cmp.Compare(a.Rev, b.Rev)
}

// merge sorts the unsorted entries into the sorted part. Of entries with the same identity it keeps
// the one put last.
func (m *entries) merge() {
	if len(m.unsorted) == 0 {
		return
	}
	slices.SortStableFunc(m.unsorted, compare)
	out := make([]timer.Fire, 0, len(m.sorted)+len(m.unsorted))
	add := func(f timer.Fire) {
		if n := len(out); n > 0 && compare(out[n-1], f) == 0 {
			out[n-1] = f
			return
		}
		out = append(out, f)
	}
	i := 0
	for _, f := range m.unsorted {
		for i < len(m.sorted) && compare(m.sorted[i], f) <= 0 {
			add(m.sorted[i])
			i++
		}
		add(f)
	}
	m.sorted, m.unsorted = append(out, m.sorted[i:]...), m.unsorted[:0]
}

// page returns entries with from < run time <= to. It never splits the entries of one instant.
func (m *entries) page(fromMS, toMS int64, limit int) window.Page {
	after := func(ms int64) int {
		return sort.Search(len(m.sorted), func(i int) bool { return m.sorted[i].RunAtMS > ms })
	}
	begin, end := after(fromMS), after(toMS)
	p := window.Page{Generation: m.generation}
	if begin >= end {
		return p
	}
	if limit = max(limit, 1); end-begin > limit {
		if cut := after(m.sorted[begin+limit-1].RunAtMS); cut < end {
			end, p.More = cut, true
		}
	}
	p.Fires = slices.Clone(m.sorted[begin:end])
	return p
}
