package zone

import (
	"sort"
	"time"
)

// The period that tables cover. It has two extra days on either side, so that every local time from
// 1970 to 2199 is included.
var (
	tableFrom = time.Date(1969, 12, 30, 0, 0, 0, 0, time.UTC).Unix()
	tableTo   = time.Date(2200, 1, 3, 0, 0, 0, 0, time.UTC).Unix()
)

// far is after every instant, and small enough that adding an offset does not overflow.
const far = 1 << 60

// Table holds the offsets of one zone: periods of constant offset, called stretches. It is
// immutable.
//
// Stretches are longer than the shifts between them (the shortest has days, the largest shift is
// one day). So the local times at their starts are ascending, too. Searches by local time rely on
// that, and a test checks every zone.
type Table struct {
	from    *Database
	loc     *time.Location
	starts  []int64 // unix seconds; starts[0] is before every instant
	offsets []int64 // seconds east of UTC; offsets[i] applies from starts[i]
}

// Load returns the table of an IANA name from the Default database; "" is UTC.
func Load(name string) (*Table, error) { return Default().Load(name) }

func (d *Database) tabulate(loc *time.Location) *Table {
	t := &Table{from: d, loc: loc}
	for at := tableFrom; at < tableTo; {
		then := time.Unix(at, 0).In(loc)
		_, offset := then.Zone()
		if n := len(t.offsets); n == 0 || t.offsets[n-1] != int64(offset) {
			t.starts = append(t.starts, at)
			t.offsets = append(t.offsets, int64(offset))
		}
		_, end := then.ZoneBounds()
		switch {
		case end.IsZero():
			at = tableTo
		case end.Unix() > at:
			at = end.Unix()
		default:
			// ZoneBounds assumes years of 365 days: on the last day of December of a leap year, the
			// bound it returns has already passed.
			at += int64(time.Hour / time.Second)
		}
	}
	t.starts[0] = -far
	return t
}

// Database returns the database of the zone.
func (t *Table) Database() *Database { return t.from }

// Location returns the zone as a time.Location.
func (t *Table) Location() *time.Location { return t.loc }

// Name returns the zone's IANA name.
func (t *Table) Name() string { return t.loc.String() }

// Len returns the number of stretches.
func (t *Table) Len() int { return len(t.starts) }

// At returns the index of the stretch that contains an instant (Unix seconds).
func (t *Table) At(unix int64) int {
	lo, hi := 0, len(t.starts) // starts[lo] <= unix < starts[hi]
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; t.starts[mid] <= unix {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// Start returns the start of a stretch.
func (t *Table) Start(i int) int64 { return t.starts[i] }

// End returns the end of a stretch, which is the start of the next.
func (t *Table) End(i int) int64 {
	if i+1 < len(t.starts) {
		return t.starts[i+1]
	}
	return far
}

// Offset returns the offset of a stretch, in seconds east of UTC.
func (t *Table) Offset(i int) int64 { return t.offsets[i] }

// OffsetAt returns the offset at an instant.
func (t *Table) OffsetAt(unix int64) int64 { return t.offsets[t.At(unix)] }

// After returns the first stretch, from the given one on, whose local end is after a local time.
// Local times are seconds since the wall clock showed 1970-01-01 00:00.
func (t *Table) After(from int, local int64) int {
	n := len(t.starts) - 1 // the last stretch has no end
	if from >= n {
		return n
	}
	// Most searches end within a few stretches.
	for near := from; near < min(from+4, n); near++ {
		if t.starts[near+1]+t.offsets[near] > local {
			return near
		}
	}
	return from + sort.Search(
		n-from,
		func(k int) bool { return t.starts[from+k+1]+t.offsets[from+k] > local },
	)
}

// Resolve returns the instant of a local time. If it occurs twice, that is the first; if it is
// skipped, the end of the gap.
func (t *Table) Resolve(local int64) int64 {
	i := t.After(0, local)
	return max(local-t.offsets[i], t.starts[i])
}
