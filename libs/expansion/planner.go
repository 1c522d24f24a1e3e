// Package expansion turns schedules into fires for a stretch of time. The api expands at
// activation, the migrators from then on.
package expansion

import (
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
)

// Defaults.
const (
	DefaultExpandAhead = 60 * time.Minute
	DefaultMax         = 300
	parsedCache        = 50_000
	latestCache        = 50_000
)

// Options of a planner.
type Options struct {
	ExpandAhead time.Duration   // the farthest it expands; 0: DefaultExpandAhead
	Max         int             // fires of one timer in one expansion; 0: DefaultMax
	Counts      *slicing.Counts // chooses buckets
	Zones       *zone.Database  // where time zones come from; nil: zone.Default
}

// Planner plans expansions. It is safe for concurrent use, and pure but for the tallies of Counts
// and what AmongLatest remembers.
type Planner struct {
	expandAheadMS int64
	max           int
	counts        *slicing.Counts
	zones         *zone.Database
	parsed        *lru.Cache[store.VersionKey, *schedule.Parsed]
	latest        *lru.Cache[store.VersionKey, latest]
}

// New returns a planner.
func New(opts Options) (*Planner, error) {
	if opts.Counts == nil {
		return nil, errors.New("expansion: Counts is missing")
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
	cache, err := lru.New[store.VersionKey, *schedule.Parsed](parsedCache)
	if err != nil {
		return nil, fmt.Errorf("making the cache of schedules: %w", err)
	}
	late, err := lru.New[store.VersionKey, latest](latestCache)
	if err != nil {
		return nil, fmt.Errorf("making the cache of late instants: %w", err)
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

// Plan is a store.Planner: fires from t.NextDueMS up to step1 ahead, at most Max. Instants missed
// while nobody expanded are treated as the misfire policy says; those missed while the timer was
// inactive are not due.
func (p *Planner) Plan(t *timer.Timer, nowMS int64) store.Plan {
	s, err := p.schedule(t)
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
		horizon = timer.NeverMS - 1 // one fire at a time: it costs one row, however far
	}
	more := st.planMissed()
	for !more && st.firesLeft > 0 && st.due <= horizon && len(st.plan.Fires) < p.max {
		st.add()
	}
	st.plan.NextDueMS = st.due
	switch st.plan.ExpandAtMS = p.expandAt(st.due, nowMS); {
	case st.firesLeft <= 0:
		st.plan.ExpandAtMS = timer.NeverMS // until one of them is skipped, and does not count
	case more:
		st.plan.ExpandAtMS = nowMS
	}
	return st.plan
}

// retryAt returns when to plan a timer again whose schedule cannot be read: never, for it stays as it
// is. But a zone that is missing here may be known to a process with newer time zones: 0, so that
// the store postpones it.
func (p *Planner) retryAt(t *timer.Timer) int64 {
	for _, name := range t.Zones() {
		if !p.zones.Has(name) {
			return 0
		}
	}
	return timer.NeverMS
}

// planBuilder is a plan in the making.
type planBuilder struct {
	planner   *Planner
	timer     *timer.Timer
	schedule  *schedule.Parsed
	nowMS     int64
	anchor    int64
	firesLeft int64 // fires that max_fires leaves
	due       int64 // the next instant to be decided about
	plan      store.Plan
}

// Anchor returns where relative schedules count from: the first activation. Intervals keep their
// phase over a pause, so that no fire of an earlier activation falls between those of the next.
func Anchor(t *timer.Timer) int64 {
	if t.AnchorMS != 0 {
		return t.AnchorMS
	}
	return t.CreatedMS // never activated: for who asks what it would do
}

func firesLeft(t *timer.Timer) int64 {
	if most := t.Definition.Schedule.MaxFires; most > 0 {
		return max(0, most-t.FiresCreated)
	}
	return timer.NeverMS
}

// first returns the first instant not yet expanded that lies within the latest activation.
func (s *planBuilder) first() int64 {
	t := s.timer
	switch kind := t.Definition.Schedule.Kind; {
	case kind == timer.KindFixedDelay:
		return s.firstSerial()
	case t.NextDueMS == timer.NeverMS:
		return timer.NeverMS
	case kind.OneShot():
		// One that passed while the timer was not active, or before it was edited, is due now: it
		// has not been called, and its user wants it to be.
		due := s.schedule.Next(-1, s.anchor)
		return max(due, t.NextDueMS, t.ActiveSinceMS)
	default:
		return s.schedule.Next(max(t.NextDueMS, t.ActiveSinceMS)-1, s.anchor)
	}
}

// firstSerial returns the first fire of a fixed delay: each activation and each edit begins a chain,
// whose further fires come with the outcomes.
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

// next moves on to the next instant.
func (s *planBuilder) next() {
	kind := s.timer.Definition.Schedule.Kind
	if kind == timer.KindFixedDelay || kind.OneShot() {
		s.due = timer.NeverMS
		return
	}
	s.due = s.schedule.Next(s.due, s.anchor)
}

// add makes a fire of the instant.
func (s *planBuilder) add() {
	f := s.planner.fire(s.timer, s.due)
	s.plan.Fires = append(s.plan.Fires, f)
	s.firesLeft--
	s.next()
}

// fire makes a fire of the schedule.
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

// expandAt returns when to expand again: half a step before the next instant, so that a minute's
// cron is expanded by thirties and not by ones; for a timer so dense that Max cut it short, when
// half of what it has is used up.
func (p *Planner) expandAt(nextDue, nowMS int64) int64 {
	if nextDue == timer.NeverMS {
		return timer.NeverMS
	}
	return max(nextDue-p.expandAheadMS/2, nowMS+(nextDue-nowMS)/2) //nolint:mnd // halves
}

func (p *Planner) schedule(t *timer.Timer) (*schedule.Parsed, error) {
	key := store.VersionKey{Timer: t.ID, Version: t.Version}
	if s, ok := p.parsed.Get(key); ok {
		return s, nil
	}
	s, err := schedule.Parse(
		t.Definition.Schedule,
		schedule.Inputs{Timer: t.ID, Calendars: t.Calendars, Zones: p.zones},
	)
	if err != nil {
		return nil, fmt.Errorf("reading the schedule of timer %d: %w", t.ID, err)
	}
	// A one-shot is planned once: keeping it would only push out schedules that come again. What
	// calendars say may change within a version.
	if !t.Definition.Schedule.Kind.OneShot() && len(t.Definition.Schedule.Calendars) == 0 {
		p.parsed.Add(key, s)
	}
	return s, nil
}
