// Package expansion turns schedules into fires for a stretch of time. The api expands at activation, the migrators from then on.
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
)

// Defaults.
const (
	DefaultStep1 = 60 * time.Minute
	DefaultMax   = 300
	parsedCache  = 50_000
)

// Options of a planner.
type Options struct {
	Step1  time.Duration   // the farthest it expands; 0: DefaultStep1
	Max    int             // fires of one timer in one expansion; 0: DefaultMax
	Counts *slicing.Counts // chooses buckets
}

// Planner plans expansions. It is safe for concurrent use, and pure but for the tallies of Counts.
type Planner struct {
	step1  int64
	max    int
	counts *slicing.Counts
	parsed *lru.Cache[store.VersionKey, *schedule.Parsed]
}

// New returns a planner.
func New(opts Options) (*Planner, error) {
	if opts.Counts == nil {
		return nil, errors.New("expansion: Counts is missing")
	}
	if opts.Step1 == 0 {
		opts.Step1 = DefaultStep1
	}
	if opts.Max == 0 {
		opts.Max = DefaultMax
	}
	cache, err := lru.New[store.VersionKey, *schedule.Parsed](parsedCache)
	if err != nil {
		return nil, fmt.Errorf("making the cache of schedules: %w", err)
	}
	return &Planner{step1: opts.Step1.Milliseconds(), max: opts.Max, counts: opts.Counts, parsed: cache}, nil
}

// Plan is a store.Planner: fires from t.NextDueMS up to step1 ahead, at most Max. Instants missed while nobody expanded are
// among them, late, since they are after the activation; those missed while the timer was inactive are not.
func (p *Planner) Plan(t *timer.Timer, nowMS int64) store.Plan {
	s, err := p.schedule(t)
	if err != nil {
		return store.Plan{Err: err, NextDueMS: t.NextDueMS, ExpandAtMS: timer.NeverMS}
	}
	anchor := anchorOf(t)
	due := firstDue(t, s, anchor)
	horizon := nowMS + p.step1
	var fires []timer.Fire
	for due <= horizon && len(fires) < p.max {
		f := timer.Fire{
			FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunMS: due, AppID: t.AppID,
			Version: t.Version, Epoch: t.ActiveEpoch, Cause: timer.CauseSchedule, State: timer.FireReady,
		}
		f.Bucket = p.counts.Bucket(f.FireID, f.RunMinute())
		fires = append(fires, f)
		due = s.Next(due, anchor)
	}
	return store.Plan{Fires: fires, NextDueMS: due, ExpandAtMS: p.expandAt(due, nowMS)}
}

// firstDue returns the first instant not yet expanded that lies within the latest activation. A one-shot's instant that passed
// while the timer was not active is due at the activation: it has not been called, and its user wants it to be.
func firstDue(t *timer.Timer, s *schedule.Parsed, anchor int64) int64 {
	switch {
	case t.NextDueMS == 0:
		return s.Next(t.ActiveSinceMS-1, anchor)
	case t.NextDueMS >= t.ActiveSinceMS:
		return t.NextDueMS
	case t.Definition.Schedule.Kind == timer.KindCron:
		return s.Next(t.ActiveSinceMS-1, anchor)
	default:
		return t.ActiveSinceMS
	}
}

// anchorOf returns where relative schedules count from. "@every" counts from the timer's creation, so that its phase survives
// a pause and no fire of an earlier activation falls between those of the next; a delay counts from the activation.
func anchorOf(t *timer.Timer) int64 {
	if t.Definition.Schedule.Kind == timer.KindCron {
		return t.CreatedMS
	}
	return t.ActiveSinceMS
}

// expandAt returns when to expand again: half a step before the next instant, so that a minute's cron is expanded by thirties and
// not by ones; for a timer so dense that Max cut it short, when half of what it has is used up.
func (p *Planner) expandAt(nextDue, nowMS int64) int64 {
	if nextDue == timer.NeverMS {
		return timer.NeverMS
	}
	return max(nextDue-p.step1/2, nowMS+(nextDue-nowMS)/2) //nolint:mnd // halves
}

func (p *Planner) schedule(t *timer.Timer) (*schedule.Parsed, error) {
	key := store.VersionKey{Timer: t.ID, Version: t.Version}
	if s, ok := p.parsed.Get(key); ok {
		return s, nil
	}
	s, err := schedule.Parse(t.Definition.Schedule, schedule.Inputs{Timer: t.ID})
	if err != nil {
		return nil, fmt.Errorf("reading the schedule of timer %d: %w", t.ID, err)
	}
	// A one-shot is planned once: keeping it would only push out schedules that come again.
	if t.Definition.Schedule.Kind == timer.KindCron {
		p.parsed.Add(key, s)
	}
	return s, nil
}
