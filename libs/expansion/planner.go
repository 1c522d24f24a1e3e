package expansion

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Defaults of Options, and cache sizes. DefaultMax bounds the open fires of a timer of every second
// to about four minutes: see docs/decisions/0032-expansions-bounded-by-fires.md.
const (
	DefaultExpandAhead = 60 * time.Minute
	DefaultMax         = 120
	parsedCache        = 50_000
	latestCache        = 50_000
)

// Options of a planner.
type Options struct {
	ExpandAhead time.Duration   // how far ahead it expands; 0: DefaultExpandAhead
	Max         int             // maximum fires of one timer per expansion; 0: DefaultMax
	Counts      *slicing.Counts // chooses buckets
	Zones       *zone.Database  // source of time zones; nil: zone.Default
}

// Planner plans expansions. It is safe for concurrent use. Its results depend only on its
// arguments, the bucket counts, and earlier answers of AmongLatest.
type Planner struct {
	expandAheadMS int64
	max           int
	counts        *slicing.Counts
	zones         *zone.Database
	parsed        *lru.Cache[store.VersionKey, parsed]
	latest        *lru.Cache[store.VersionKey, latest]
}

// parsed is a schedule as it was read.
type parsed struct {
	of timer.Schedule
	*schedule.Parsed
}

// New returns a planner.
func New(opts Options) (*Planner, error) {
	if opts.Counts == nil {
		return nil, errors.New("expansion: Counts is required")
	}
	if opts.ExpandAhead == 0 {
		opts.ExpandAhead = DefaultExpandAhead
	}
	if opts.Max == 0 {
		opts.Max = DefaultMax
	}
	if opts.Zones == nil {
		opts.Zones = zone.Default()
	}
	cache, err := lru.New[store.VersionKey, parsed](parsedCache)
	if err != nil {
		return nil, fmt.Errorf("making the cache of schedules: %w", err)
	}
	late, err := lru.New[store.VersionKey, latest](latestCache)
	if err != nil {
		return nil, fmt.Errorf("making the cache of late fires: %w", err)
	}
	return &Planner{
		expandAheadMS: opts.ExpandAhead.Milliseconds(),
		max:           opts.Max,
		counts:        opts.Counts,
		zones:         opts.Zones,
		parsed:        cache,
		latest:        late,
	}, nil
}

// Plan is a store.Planner: it plans fires from t.NextDueMS up to ExpandAhead, at most Max. The
// misfire policy decides about due times missed while nobody expanded. Due times in inactive
// periods have no fires.
func (p *Planner) Plan(t *timer.Timer, nowMS int64) store.Plan {
	s, err := p.schedule(t)
	if unknown := checkKnown(&t.Definition); unknown != nil {
		err = unknown
	}
	if err != nil {
		return store.Plan{Err: err, NextDueMS: t.NextDueMS, ExpandAtMS: p.retryAt(t)}
	}
	st := &planBuilder{
		planner:   p,
		timer:     t,
		schedule:  s,
		nowMS:     nowMS,
		anchor:    Anchor(t),
		firesLeft: firesLeft(t),
	}
	st.due = st.first()
	horizon := nowMS + p.expandAheadMS
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		horizon = timer.NeverMS - 1 // one row at a time, however far ahead
	}
	more := st.planMissed()
	for !more && st.firesLeft > 0 && st.due <= horizon && len(st.plan.Fires) < p.max {
		st.add()
	}
	st.plan.NextDueMS = st.due
	if t.Definition.Schedule.Kind == timer.KindFixedDelay && firesLeft(t) == 0 {
		st.plan.NextDueMS = t.NextDueMS // the chain still begins there once a fire does not count
	}
	switch st.plan.ExpandAtMS = p.expandAt(st.due, nowMS); {
	case st.firesLeft <= 0:
		st.plan.ExpandAtMS = timer.NeverMS // until a fire is skipped and does not count
	case more:
		st.plan.ExpandAtMS = nowMS
	}
	return st.plan
}

// retryAt returns when to plan a timer that cannot be planned: never, because its definition does
// not change. If a zone is missing, or a value is unknown, it returns 0 and the store postpones the
// timer, because other processes may have newer time zones or be of a newer release.
func (p *Planner) retryAt(t *timer.Timer) int64 {
	if checkKnown(&t.Definition) != nil {
		return 0
	}
	// The schedule's own zone must be known even if its instants do not depend on it.
	for _, name := range append(t.Zones(), t.Definition.Schedule.Zone) {
		if !p.zones.Has(name) {
			return 0
		}
	}
	return timer.NeverMS
}

// checkKnown returns an error for a value that decides about fires and that this release does not
// know: a newer one has stored it. Any guess would break a promise of that release.
func checkKnown(d *timer.Definition) error {
	s := &d.Schedule
	for _, v := range []struct {
		name, value string
		known       bool
	}{
		{"kind of schedule", string(s.Kind), s.Kind.Known()},
		{"gap policy", string(s.Gap), s.Gap.Known()},
		{"overlap policy", string(s.Overlap), s.Overlap.Known()},
		{"excluded policy", string(s.Excluded), s.Excluded.Known()},
		{"misfire policy", string(d.Misfire.Policy), d.Misfire.Policy.Known()},
		{"priority", string(d.Priority), d.Priority.Known()},
	} {
		if !v.known {
			return fmt.Errorf("unknown %s %q: a newer release has stored it", v.name, v.value)
		}
	}
	return nil
}

// planBuilder builds the plan of one timer.
type planBuilder struct {
	planner   *Planner
	timer     *timer.Timer
	schedule  *schedule.Parsed
	nowMS     int64
	anchor    int64
	firesLeft int64 // remaining fires under max_fires
	due       int64 // the next due time to decide about
	plan      store.Plan
}

// Anchor returns the time that relative schedules count from: the first activation. Intervals keep
// their phase over a pause, so no fire of an earlier activation falls between those of the next.
func Anchor(t *timer.Timer) int64 {
	if t.AnchorMS != 0 {
		return t.AnchorMS
	}
	return t.CreatedMS // never activated: for a preview
}

func firesLeft(t *timer.Timer) int64 {
	if most := t.Definition.Schedule.MaxFires; most > 0 {
		// FiresCreated may be far below zero, for a plan without a limit.
		return max(0, min(most, timer.NeverMS/2)-t.FiresCreated)
	}
	return timer.NeverMS
}

// first returns the first due time of the current activation that is not expanded yet.
func (s *planBuilder) first() int64 {
	t := s.timer
	switch kind := t.Definition.Schedule.Kind; {
	case kind == timer.KindFixedDelay:
		return s.firstSerial()
	case t.NextDueMS == timer.NeverMS:
		return timer.NeverMS
	case kind.OneShot():
		// A one-shot that passed while the timer was inactive, or before an edit, is due now: it
		// was not called, and its user wants the call.
		due := s.schedule.Next(-1, s.anchor)
		return max(due, t.NextDueMS, t.ActiveSinceMS)
	default:
		return s.schedule.Next(max(t.NextDueMS, t.ActiveSinceMS)-1, s.anchor)
	}
}

// firstSerial returns the due time of the first fire of a fixed delay. Each activation, and an edit
// of the delay, starts a new serial, whose later fires come with the outcomes.
func (s *planBuilder) firstSerial() int64 {
	t := s.timer
	switch from := t.NextDueMS - 1; t.NextDueMS {
	case 0:
		return s.schedule.Next(t.ActiveSinceMS, t.ActiveSinceMS)
	case timer.NeverMS:
		return timer.NeverMS
	default:
		return s.schedule.Next(from, from)
	}
}

// next advances to the next due time.
func (s *planBuilder) next() {
	kind := s.timer.Definition.Schedule.Kind
	if kind == timer.KindFixedDelay || kind.OneShot() {
		s.due = timer.NeverMS
		return
	}
	s.due = s.schedule.Next(s.due, s.anchor)
}

// add adds the fire of the current due time.
func (s *planBuilder) add() {
	f := s.planner.fire(s.timer, s.due)
	s.plan.Fires = append(s.plan.Fires, f)
	s.firesLeft--
	s.next()
}

// fire returns the fire of a due time.
func (p *Planner) fire(t *timer.Timer, due int64) timer.Fire {
	f := timer.Fire{
		FireID: timer.FireID{
			Timer: t.ID,
			DueMS: due,
		},
		RunAtMS:       due + schedule.Jitter(t.ID, due, t.Definition.Schedule.Jitter),
		AppID:         t.AppID,
		Version:       t.Version,
		Epoch:         t.ActiveEpoch,
		Cause:         timer.CauseSchedule,
		State:         timer.FireReady,
		PriorityLevel: t.Definition.Priority.PriorityLevel(),
	}
	f.Bucket = p.counts.Bucket(f.FireID, f.RunAtMinute())
	return f
}

// expandAt returns when to expand again: half of ExpandAhead before the next due time, so that a
// minutely cron is expanded 30 fires at a time. A timer cut short by Max is expanded when half of
// its fires are used up.
func (p *Planner) expandAt(nextDue, nowMS int64) int64 {
	if nextDue == timer.NeverMS {
		return timer.NeverMS
	}
	return max(nextDue-p.expandAheadMS/2, nowMS+(nextDue-nowMS)/2) //nolint:mnd // halves
}

// schedule reads a timer's schedule, or returns it as read before. A version is planned before it is
// committed, and a dry run or a failed edit leaves its number to another definition. So what was read
// is compared.
func (p *Planner) schedule(t *timer.Timer) (*schedule.Parsed, error) {
	key := store.VersionKey{Timer: t.ID, Version: t.Version}
	if s, ok := p.parsed.Get(key); ok && sameSchedule(s.of, t.Definition.Schedule) {
		return s.Parsed, nil
	}
	s, err := schedule.Parse(
		t.Definition.Schedule,
		schedule.Inputs{Timer: t.ID, Calendars: t.Calendars, Zones: p.zones},
	)
	if err != nil {
		return nil, fmt.Errorf("reading the schedule of timer %d: %w", t.ID, err)
	}
	// A one-shot is planned once, so caching it would only evict recurring schedules. Calendars may
	// change within a version.
	if !t.Definition.Schedule.Kind.OneShot() && len(t.Definition.Schedule.Calendars) == 0 {
		p.parsed.Add(key, parsed{of: t.Definition.Schedule, Parsed: s})
	}
	return s, nil
}

// sameSchedule reports whether two schedules are the same, in whatever zones their times are written.
func sameSchedule(a, b timer.Schedule) bool {
	for _, at := range []**time.Time{
		&a.At, &a.Anchor, &a.StartAt, &a.EndAt, &b.At, &b.Anchor, &b.StartAt, &b.EndAt,
	} {
		if *at != nil {
			utc := (*at).UTC()
			*at = &utc
		}
	}
	return reflect.DeepEqual(a, b)
}
