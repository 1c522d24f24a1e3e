package explain

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sort"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// MaxInstants is how many instants one call of Explain answers.
const MaxInstants = 1000

// Store is the part of the store that explanations read.
type Store interface {
	store.States
	store.Definitions
	Sessions
	Fires

	Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error)
	VersionTimes(ctx context.Context, keys []store.VersionKey) (map[store.VersionKey]int64, error)
	Inactivities(ctx context.Context, ids []timer.ID) (map[timer.ID][]timer.Inactivity, error)
	Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error)
}

// Fires are the open and the finished fires of timers.
type Fires interface {
	OpenAmong(ctx context.Context, ids []timer.FireID) ([]timer.Fire, error)
	OpenFires(
		ctx context.Context, app string, id timer.ID, q store.OpenFiresQuery,
	) (store.OpenFiresPage, error)
	History(
		ctx context.Context,
		app string,
		id timer.ID,
		before timer.FireID,
		limit int,
	) ([]timer.Outcome, error)
	LastScheduled(
		ctx context.Context, app string, id timer.ID, beforeMS int64,
	) (o timer.Outcome, found bool, err error)
	PurgedBefore(ctx context.Context) (int64, error)
}

// Query selects the instants of a timer.
type Query struct {
	App          string
	ID           timer.ID
	FromMS, ToMS int64 // instants in [FromMS, ToMS); Unix ms
	Limit        int   // from 1 to MaxInstants
	NowMS        int64
	// RetainedFromMS says that outcomes which finished earlier may have been deleted. Read makes it
	// later if a shorter retention was in force.
	RetainedFromMS int64

	Zones *zone.Database // nil: zone.Default
}

// Version is a version of the definition.
type Version struct {
	N          int32
	SinceMS    int64 // when it came into force
	Definition timer.Definition

	untilMS     int64            // when the next version came into force, timer.NeverMS: it has not
	copied      bool             // the next version has the same definition
	calendarsMS int64            // when a calendar that it names changed last, 0: it names none
	parsed      *schedule.Parsed // nil: it cannot be read
	problem     error            // why
}

// Facts are what the store knows about a timer in a range.
type Facts struct {
	Query

	State timer.State
	Timer *timer.Timer // nil once the timer is deleted
	// Versions are those in force in the range, and the one before the first of them, ascending.
	Versions     []Version
	Inactivities []timer.Inactivity
	Open         []timer.Fire // in order of (due, series)
	Owners       Owners       // of the open fires, and of those that ReadHolds tells of
	Outcomes     []timer.Outcome

	instants []int64 // to explain, ascending
	next     int64   // where the next page begins, 0: there is none
	last     *lastAllowed
	goesOn   bool // see readRest
	delayed  delayed
}

// Read gathers the facts. Error: not_found.
//
// Reads are not one snapshot. The timer is read first, then the open fires, then the outcomes. So
// an instant before the timer's NextDueMS has had its fire by then. That fire is found open or
// finished. A fire that finishes in between is found twice, and its outcome counts.
func Read(ctx context.Context, s Store, q Query) (*Facts, error) {
	f := &Facts{Query: q}
	steps := []func(context.Context, Store) error{
		f.readTimer, f.readVersions, f.readSchedules, f.listInstants, f.readFires, f.readRest,
		f.readDelayed, f.readPurged,
	}
	for _, step := range steps {
		if err := step(ctx, s); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// readPurged comes last: what a purge removes is noted before.
func (f *Facts) readPurged(ctx context.Context, s Store) error {
	purgedMS, err := s.PurgedBefore(ctx)
	f.RetainedFromMS = max(f.RetainedFromMS, purgedMS)
	return err //nolint:wrapcheck // the store says what it was doing
}

func (f *Facts) readTimer(ctx context.Context, s Store) error {
	switch t, err := s.Timer(ctx, f.App, f.ID); {
	case err == nil:
		f.Timer = &t
	case timer.CodeOf(err) != timer.CodeNotFound:
		return err //nolint:wrapcheck // the store says what it was doing
	}
	states, err := s.States(ctx, []timer.ID{f.ID})
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	if len(states) == 0 || states[0].App != f.App {
		return timer.NotFound("timer", f.ID.String())
	}
	f.State = states[0]
	all, err := s.Inactivities(ctx, []timer.ID{f.ID})
	f.Inactivities = all[f.ID]
	return err //nolint:wrapcheck // the store says what it was doing
}

// readVersions finds the version in force at the begin of the range by a binary search, since
// versions come into force in order. It reads those up to the end of the range.
func (f *Facts) readVersions(ctx context.Context, s Store) error {
	var failed error
	since := func(n int32) int64 {
		key := store.VersionKey{Timer: f.ID, Version: n}
		times, err := s.VersionTimes(ctx, []store.VersionKey{key})
		if err != nil {
			failed = err
		}
		return times[key]
	}
	latest := f.State.Version
	later := sort.Search(int(latest), func(i int) bool { // versions 1…later are in force by FromMS
		return failed != nil || since(int32(i)+1) >= f.FromMS //nolint:gosec // up to an int32
	})
	if failed != nil {
		return failed
	}
	first := max(1, int32(later)-1) //nolint:gosec // up to an int32
	var keys []store.VersionKey
	for n := first; n <= latest && len(keys) < MaxInstants; n++ {
		keys = append(keys, store.VersionKey{Timer: f.ID, Version: n})
	}
	times, err := s.VersionTimes(ctx, keys)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	following := func(k store.VersionKey) store.VersionKey {
		return store.VersionKey{Timer: k.Timer, Version: k.Version + 1}
	}
	if n := len(keys); n > 0 && keys[n-1].Version < latest {
		next := following(keys[n-1])
		if times[next] = since(next.Version); failed != nil {
			return failed
		}
		if times[next] < f.ToMS {
			f.endAt(times[next] + 1) // the next page is of the versions from then on
		}
	}
	keys = slices.DeleteFunc(keys, func(k store.VersionKey) bool {
		return times[k] >= f.ToMS && k.Version != first
	})
	read := keys
	if n := len(keys); n > 0 && keys[n-1].Version < latest {
		read = append(slices.Clone(keys), following(keys[n-1]))
	}
	definitions, err := s.Definitions(ctx, read)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	for _, k := range keys {
		v := Version{N: k.Version, SinceMS: times[k], untilMS: timer.NeverMS}
		if at, ok := times[following(k)]; ok {
			v.untilMS = at
		}
		if d := definitions[k]; d != nil {
			v.Definition = *d
			v.copied = reflect.DeepEqual(d, definitions[following(k)])
		}
		f.Versions = append(f.Versions, v)
	}
	return nil
}

// readSchedules parses the schedules, with the present contents of their calendars.
func (f *Facts) readSchedules(ctx context.Context, s Store) error {
	known := map[string]store.CalendarVersion{}
	for i := range f.Versions {
		v := &f.Versions[i]
		in := schedule.Inputs{Timer: f.ID, Zones: f.Zones}
		for _, name := range v.Definition.Schedule.Calendars {
			if _, ok := known[name]; !ok {
				c, err := s.Calendar(ctx, f.App, name)
				switch {
				case timer.CodeOf(err) == timer.CodeNotFound:
					v.problem = err
					continue
				case err != nil:
					return err //nolint:wrapcheck // the store says what it was doing
				}
				known[name] = c
			}
			v.calendarsMS = max(v.calendarsMS, known[name].UpdatedMS)
			in.Calendars = append(in.Calendars, known[name].Calendar)
		}
		if why := v.Definition.Unreadable; why != "" {
			v.problem = errors.New(why)
		}
		if v.problem == nil {
			v.parsed, v.problem = schedule.Parse(v.Definition.Schedule, in)
		}
	}
	return nil
}

// anchor returns the origin of relative schedules.
func (f *Facts) anchor() int64 {
	if f.Timer != nil {
		return expansion.Anchor(f.Timer)
	}
	return f.State.AnchorMS
}

// beginsLater reports whether the instants of a version count from the first activation, which has
// not been yet. So it has none. Fixed delays have none in any case.
func (f *Facts) beginsLater(v *Version) bool {
	return f.State.AnchorMS == 0 && v.parsed != nil && v.parsed.CountsFromActivation() &&
		v.Definition.Schedule.Kind != timer.KindFixedDelay
}

// listInstants collects the instants of the schedules in the range, each by the version that is in
// force, up to the limit. One instant alone is always explained.
func (f *Facts) listInstants(ctx context.Context, _ Store) error {
	if f.ToMS == f.FromMS+1 {
		f.instants = []int64{f.FromMS}
		return nil
	}
	for i := range f.Versions {
		v := &f.Versions[i]
		from, to := f.FromMS, f.ToMS
		if i > 0 {
			from = max(from, v.SinceMS+1)
		}
		if i+1 < len(f.Versions) {
			to = min(to, f.Versions[i+1].SinceMS+1)
		}
		left := f.Limit + 1 - len(f.instants)
		if v.parsed == nil || from >= to || left <= 0 ||
			v.Definition.Schedule.Kind == timer.KindFixedDelay || f.beginsLater(v) {
			continue
		}
		found, err := v.parsed.Instants(ctx, from, to, f.anchor(), left)
		if err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		f.instants = append(f.instants, found...)
	}
	if len(f.instants) > f.Limit {
		f.endAt(f.instants[f.Limit])
	}
	return nil
}

// endAt shortens the page.
func (f *Facts) endAt(ms int64) {
	f.ToMS, f.next = ms, ms
	n, _ := slices.BinarySearch(f.instants, ms)
	f.instants = f.instants[:n]
}

// readFires reads the open fires of the instants, then the outcomes of the range.
func (f *Facts) readFires(ctx context.Context, s Store) error {
	if err := f.readOpen(ctx, s); err != nil {
		return err
	}
	var err error
	if f.Owners, err = ReadOwners(ctx, s, f.Open); err != nil {
		return err
	}
	for {
		done, err := f.readOutcomes(ctx, s)
		if err != nil || done {
			return err
		}
		f.endAt(f.FromMS + (f.ToMS-f.FromMS+1)/2) //nolint:mnd // half
	}
}

// maxOpen limits the open fires of one instant.
const maxOpen = 500

// readOpen reads the open fires of the schedule. Of one instant alone it reads those of requests,
// too, which are found by a scan of their instant.
func (f *Facts) readOpen(ctx context.Context, s Store) error {
	if f.ToMS == f.FromMS+1 {
		page, err := s.OpenFires(ctx, f.App, f.ID, store.OpenFiresQuery{
			After:   store.OpenFiresPosition{DueMS: f.FromMS, Series: store.BeforeAllSeries},
			UntilMS: f.FromMS, ScanLimit: 1, Limit: maxOpen,
		})
		f.Open = page.Fires
		return err //nolint:wrapcheck // the store says what it was doing
	}
	var ids []timer.FireID
	for _, at := range f.instants {
		ids = append(ids, timer.FireID{Timer: f.ID, DueMS: at})
	}
	// No schedule has the fire of a fixed delay, or of a one-shot that was due at its edit.
	if t := f.Timer; t != nil && t.LastDueMS >= f.FromMS && t.LastDueMS < f.ToMS {
		if _, listed := slices.BinarySearch(f.instants, t.LastDueMS); !listed {
			ids = append(ids, timer.FireID{Timer: f.ID, DueMS: t.LastDueMS})
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var err error
	f.Open, err = s.OpenAmong(ctx, ids)
	return err //nolint:wrapcheck // the store says what it was doing
}

// maxPages limits the outcomes that one page of an explanation reads within its range.
const maxPages = 10

// readOutcomes reads the outcomes of the range. It returns false if there are too many: the page
// must be shorter. A range of one instant is always read.
func (f *Facts) readOutcomes(ctx context.Context, s Store) (done bool, err error) {
	f.Outcomes = nil
	before := timer.FireID{Timer: f.ID, DueMS: f.ToMS}
	for n := 1; ; n++ {
		page, err := s.History(ctx, f.App, f.ID, before, store.MaxBatch)
		if err != nil {
			return false, err //nolint:wrapcheck // the store says what it was doing
		}
		f.Outcomes = append(f.Outcomes, page...)
		if len(page) < store.MaxBatch || f.reaches(page) {
			f.endOutcomes()
			return true, nil
		}
		before = page[len(page)-1].FireID
		if before.DueMS < f.FromMS { // of a request, and there may be any number of them
			o, found, err := s.LastScheduled(ctx, f.App, f.ID, before.DueMS+1)
			if err != nil {
				return false, err //nolint:wrapcheck // the store says what it was doing
			}
			if found {
				f.Outcomes = append(f.Outcomes, o)
			}
			f.endOutcomes()
			return true, nil
		}
		if n >= maxPages && f.ToMS-f.FromMS > 1 {
			return false, nil
		}
	}
}

// endOutcomes puts the outcomes that were read in order.
func (f *Facts) endOutcomes() {
	slices.Reverse(f.Outcomes)
	f.mergeInstants()
}

// reaches reports whether a page of outcomes, the latest due first, has everything of the range. A
// record of a stretch counts from its first instant. So the first outcome of the schedule before
// the range is needed too.
func (f *Facts) reaches(page []timer.Outcome) bool {
	return slices.ContainsFunc(page, func(o timer.Outcome) bool {
		return o.DueMS < f.FromMS && o.Series == 0
	})
}

// mergeInstants adds the instants of open fires and outcomes that no schedule has: of requests, of
// fixed delays, and of earlier versions.
func (f *Facts) mergeInstants() {
	for i := range f.Open {
		if due := f.Open[i].DueMS; due >= f.FromMS && due < f.ToMS {
			f.instants = append(f.instants, due)
		}
	}
	for i := range f.Outcomes {
		if due := f.Outcomes[i].DueMS; due >= f.FromMS && due < f.ToMS {
			f.instants = append(f.instants, due)
		}
	}
	slices.Sort(f.instants)
	f.instants = slices.Compact(f.instants)
	if len(f.instants) > f.Limit {
		f.endAt(f.instants[f.Limit])
	}
}
