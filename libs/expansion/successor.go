package expansion

import (
	"fmt"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Successor returns the next fire of a fixed delay after one that ended at endMS. It returns nil if
// the schedule has ended, or if the fire is not of series 0, such as a run-now. It fails if this
// process lacks a time zone of the schedule or its calendars, or does not know a value of a newer
// release.
func (p *Planner) Successor(
	f *timer.Fire,
	d *timer.Definition,
	calendars []timer.Calendar,
	endMS int64,
) (*timer.Fire, error) {
	if d.Schedule.Kind != timer.KindFixedDelay || f.Series != 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	if err := checkKnown(d); err != nil {
		return nil, err
	}
	t := &timer.Timer{
		ID:          f.Timer,
		AppID:       f.AppID,
		Version:     f.Version,
		ActiveEpoch: f.Epoch,
		Definition:  *d,
		Calendars:   calendars,
	}
	s, err := p.schedule(t)
	if err != nil {
		return nil, err
	}
	// Never repeat a due time, even if the clock was set back: due times are identities.
	due := s.Next(max(endMS, f.DueMS), max(endMS, f.DueMS))
	if due == timer.NeverMS {
		return nil, nil //nolint:nilnil // there is none
	}
	next := p.fire(t, due)
	return &next, nil
}

// BackfillAnchor returns the time from which the instants of a backfill count. ok is false if the
// schedule counts from an activation that the timer never had: it has no instants in the past then,
// and those that a preview shows are not its own.
func BackfillAnchor(t *timer.Timer, s *schedule.Parsed) (anchorMS int64, ok bool) {
	return t.AnchorMS, t.AnchorMS != 0 || !s.CountsFromActivation()
}

// PlanBackfill is a store.BackfillPlanner. It plans at most Max fires of the next part of the
// range. An edit may give a timer that was never activated a schedule that counts from the
// activation: the rest of the range has no fires then.
func (p *Planner) PlanBackfill(
	t *timer.Timer,
	b *store.Backfill,
	nowMS int64,
) (fires []timer.Fire, nextMS int64, err error) {
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		return nil, b.NextMS, fmt.Errorf(
			"timer %d has a fixed delay: it has no past due times to backfill",
			t.ID,
		)
	}
	s, err := p.schedule(t)
	if err != nil {
		return nil, b.NextMS, err
	}
	anchor, ok := BackfillAnchor(t, s)
	if !ok {
		return nil, b.ToMS, nil
	}
	due := s.Next(b.NextMS-1, anchor)
	for ; due < b.ToMS && len(fires) < p.max; due = s.Next(due, anchor) {
		f := p.fire(t, due)
		f.Series, f.Cause, f.RunAtMS = int64(b.ID), timer.CauseBackfill, nowMS
		f.Bucket = p.counts.Bucket(f.FireID, f.RunAtMinute())
		fires = append(fires, f)
	}
	return fires, min(due, b.ToMS), nil
}
