package sqlstore

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// expansion is what one transaction makes of the schedules of timers whose rows it has locked, or
// just made. It is gathered first, by pure computation and plain reads, and written by flush, which
// locks the rows of fires in the order of their keys, whatever the order of the timers was.
type expansion struct {
	store *Store
	c     runner
	plan  store.Planner
	nowMS int64

	calendar map[timer.ID]bool // those whose Replan is for a calendar's sake

	openAhead map[timer.ID][]timer.Fire // by findAhead; an entry for each that was looked for
	// by aheadOfEdit: those for which processes have different rules; nil: not asked for yet.
	mixedZones map[string]bool

	chains map[timer.ID]int64 // the latest fire that was planned, of those with a fixed delay
	// those whose chain of a fixed delay, if they have one, begins anew with their present version.
	begun map[timer.ID]bool

	// to be inserted, of timers that never had another version: no row can be there.
	plain []timer.Fire
	// to be inserted or moved: an edit, or an activation of a fixed delay, may have left a row.
	merged []timer.Fire
	// of one-shots, locked and unowned: to be ended as superseded, unless they are among merged.
	replaced []timer.Fire
	moved    []timer.Fire       // to be moved if they are open, with their new version
	skips    []timer.Outcome    // to be inserted
	repeated []store.VersionKey // versions that get a next one with the same definition

	stretches []inactivityRow              // that began or ended, to be written
	resumed   []timer.ID                   // timers whose deferred fires are to be released
	deferred  map[timer.FireID]deferredRow // by flush: those fires
	released  map[timer.ID][]timer.Fire    // by flush: to be marked

	// by flush: what became of merged and moved ones; nil: nothing that is to be marked.
	settled map[timer.FireID]*timer.Fire
	refused map[timer.ID]int64 // by flush: how many of merged have an outcome already
}

func (s *Store) newExpansion(c runner, plan store.Planner, nowMS int64) *expansion {
	return &expansion{
		store:     s,
		c:         c,
		plan:      plan,
		nowMS:     nowMS,
		calendar:  map[timer.ID]bool{},
		openAhead: map[timer.ID][]timer.Fire{},
		chains:    map[timer.ID]int64{},
		begun:     map[timer.ID]bool{},
		released:  map[timer.ID][]timer.Fire{},
		settled:   map[timer.FireID]*timer.Fire{},
		refused:   map[timer.ID]int64{},
	}
}

// begin makes a timer active from now on, or from the end of its pause on where that has passed: it
// counts when the pause was to end, not when somebody noticed. One epoch more. The first activation
// is what its schedule counts from.
func (x *expansion) begin(t *timer.Timer) {
	sinceMS := x.nowMS
	if pauseIsOver(t, x.nowMS) {
		sinceMS = max(t.PausedUntilMS, t.InactiveSinceMS)
	}
	x.endStretch(t, sinceMS)
	if t.ActiveEpoch > 0 {
		x.resumed = append(x.resumed, t.ID)
	}
	t.Status, t.InactiveSinceMS = timer.StatusActive, 0
	t.ActiveSinceMS = sinceMS
	t.ActiveEpoch++
	t.UpdatedMS = x.nowMS
	t.PauseReason, t.PausedUntilMS = "", 0
	if t.AnchorMS == 0 {
		t.AnchorMS = x.nowMS
	}
	if t.Definition.Schedule.Kind == timer.KindFixedDelay && t.NextDueMS != 0 &&
		(t.NextDueMS == timer.NeverMS || t.NextDueMS <= sinceMS) {
		// each activation begins a chain, behind all that the one before it had.
		t.NextDueMS = sinceMS + 1
	}
}

// pauseIsOver tells whether the end of a timer's pause has passed, and nobody has activated it yet.
func pauseIsOver(t *timer.Timer, nowMS int64) bool {
	return t.Status == timer.StatusPaused && t.PausedUntilMS > 0 && t.PausedUntilMS <= nowMS
}

// endPauses activates those of the timers whose pause is over and that no migrator has taken yet,
// so that what is about to change them finds them as they are by the clock.
func (x *expansion) endPauses(
	ctx context.Context,
	byID map[timer.ID]*timer.Timer,
) (fires []timer.Fire, err error) {
	var over []timer.ID
	for id, t := range byID {
		if pauseIsOver(t, x.nowMS) {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		more, err := x.activate(ctx, byID[id])
		if err != nil {
			return nil, err
		}
		fires = append(fires, more...)
	}
	if len(over) == 0 {
		return nil, nil
	}
	if err := x.flush(ctx); err != nil {
		return nil, err
	}
	if err := x.saveEach(ctx, byID, over); err != nil {
		return nil, err
	}
	return x.marked(fires), x.store.addChanges(ctx, x.c, over)
}

// activate begins and plans the first stretch.
func (x *expansion) activate(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	x.begin(t)
	return x.proceed(ctx, t)
}

// proceed plans the next stretch of an active timer, anew where that was asked for: see S20. Where
// the plan fails, that remains to be done.
//
// A calendar changed under a version that stays would leave executors no way to tell the fires that
// the new plan does not have: it makes a new version, with the same definition, if anything is
// expanded beyond now. After an edit there is one already, and what the old one had beyond now was
// taken back by the edit.
func (x *expansion) proceed(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	was, repeated := *t, len(x.repeated)
	t.Replan = false
	calendar := x.calendar[t.ID]
	if was.Replan && calendar && t.NextDueMS > x.nowMS+1 {
		ahead, err := x.aheadOfReplan(ctx, t)
		if err != nil {
			return nil, err
		}
		if t.NextDueMS == timer.NeverMS && t.Definition.Schedule.Kind.OneShot() && len(ahead) == 0 {
			t.ExpandAtMS = timer.NeverMS // it was due, and is not due again
			return nil, nil
		}
		x.takeBack(t, ahead)
		x.repeated = append(x.repeated, store.VersionKey{Timer: t.ID, Version: t.Version})
		t.Version, t.VersionMS, t.UpdatedMS = t.Version+1, x.nowMS, x.nowMS
	}
	fires, ok := x.expand(t)
	if !ok && was.Replan {
		was.ExpandAtMS = t.ExpandAtMS
		if *t, x.repeated = was, x.repeated[:repeated]; calendar {
			delete(x.begun, t.ID)
		}
	}
	return fires, nil
}

// takeBack forgets what is expanded beyond now: open are those fires. They stay where they are;
// those that the plan to come does not have are skipped by the executors, for their version is not
// the present one.
func (x *expansion) takeBack(t *timer.Timer, open []timer.Fire) {
	x.begun[t.ID] = true
	if t.NextDueMS > x.nowMS+1 {
		t.NextDueMS = x.nowMS + 1
		t.FiresCreated = max(0, t.FiresCreated-int64(len(open)))
	}
}

// expand plans a stretch of a timer, moves it forward and returns its fires. Where the plan fails
// it only postpones.
func (x *expansion) expand(t *timer.Timer) (fires []timer.Fire, ok bool) {
	p := x.plan(t, x.nowMS)
	if p.Err == nil {
		p.Err = checkPlan(t, &p, x.nowMS)
	}
	if p.Err != nil {
		t.ExpandAtMS = p.ExpandAtMS
		if t.ExpandAtMS <= x.nowMS {
			t.ExpandAtMS = x.nowMS + planRetryDelay.Milliseconds()
		}
		x.store.log.Warn().
			Err(p.Err).
			Int64("timer", int64(t.ID)).
			Int64("again_ms", t.ExpandAtMS).
			Msg("timer cannot be expanded")
		return nil, false
	}
	x.take(t, &p)
	return p.Fires, true
}

// take moves a timer forward over a plan and gathers what the plan has.
func (x *expansion) take(t *timer.Timer, p *store.Plan) {
	t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
	t.FiresCreated += int64(len(p.Fires))
	if n := len(p.Fires); n > 0 && t.Definition.Schedule.Kind == timer.KindFixedDelay {
		x.chains[t.ID] = p.Fires[n-1].DueMS
	}
	x.skips = append(x.skips, p.Skips...)
	// The chain of an activation before may have left a fire at the very instant: where a calendar
	// lets none before it.
	if t.Version > 1 || t.ActiveEpoch > 1 && t.Definition.Schedule.Kind == timer.KindFixedDelay {
		x.merged = append(x.merged, p.Fires...)
	} else {
		x.plain = append(x.plain, p.Fires...)
	}
}

// rounds bounds what one change expands: 30,000 fires of a planner that plans 300 at once.
const rounds = 100

// catchUp expands what came due while the timer was active and no migrator expanded it: a timer
// that is switched off is expanded no more, and each of those instants has to have an outcome, if
// only that it was skipped. What is still to come is left for the next activation.
func (x *expansion) catchUp(t *timer.Timer) (fires []timer.Fire) {
	for range rounds {
		if t.NextDueMS > x.nowMS {
			break
		}
		p := x.plan(t, x.nowMS)
		if p.Err != nil || checkPlan(t, &p, x.nowMS) != nil {
			break // it would not have been expanded in time either
		}
		cutPlan(&p, x.nowMS)
		x.take(t, &p)
		fires = append(fires, p.Fires...)
		if plannedFires(&p) == 0 {
			break
		}
	}
	return fires
}

// unlimited is a count of fires made with which no max_fires is reached.
const unlimited = -1 << 40

// ahead returns the open fires of a timer that are due later than now. No index leads from a timer
// to its fires: its schedule does, planned once more over what is expanded already. No lock is
// needed: only who has the timer's row adds fires, and those to come are not recorded yet.
func (x *expansion) ahead(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	probe := *t
	probe.NextDueMS, probe.FiresCreated = x.nowMS+1, unlimited
	var ids []timer.FireID
	for range rounds {
		if probe.NextDueMS >= t.NextDueMS {
			break
		}
		p := x.plan(&probe, x.nowMS)
		if p.Err != nil || checkPlan(&probe, &p, x.nowMS) != nil || len(p.Fires) == 0 {
			break
		}
		for i := range p.Fires {
			if p.Fires[i].DueMS < t.NextDueMS {
				ids = append(ids, p.Fires[i].FireID)
			}
		}
		probe.NextDueMS = p.NextDueMS
	}
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		// Its fires follow from each other's ends: what is open is the latest.
		var chainMS int64
		if err := x.store.selectOne(
			ctx,
			x.c,
			&chainMS,
			stmt("SELECT last_serial_due_ms FROM timers WHERE id=").int(int64(t.ID)),
		); err != nil {
			return nil, err
		}
		if chainMS > x.nowMS {
			ids = sortedIDs(append(ids, timer.FireID{Timer: t.ID, DueMS: chainMS}))
		}
	}
	if t.Definition.Schedule.Kind.OneShot() && t.Status != timer.StatusActive {
		// One that came due meanwhile waits for the next activation, and is due then.
		var rows []fireIDRow
		if err := x.store.selectAll(
			ctx,
			x.c,
			&rows,
			stmt("SELECT timer_id,due_ms,series FROM deferred WHERE timer_id=").int(int64(t.ID)).
				add(" AND series=0"),
		); err != nil {
			return nil, err
		}
		for _, r := range rows {
			ids = append(ids, r.id())
		}
		ids = sortedIDs(ids)
	}
	var open []timer.Fire
	for part := range batches(ids) {
		rows, err := x.store.openFires(ctx, x.c, part, "")
		if err != nil {
			return nil, err
		}
		open = append(open, rows...)
	}
	return open, nil
}
