package scheduling

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// expansion is the expansion of timers in one transaction, which has locked or inserted their rows.
// It first collects all changes, by computation and reads without locks. flush then writes them,
// and locks the rows of fires in the order of their keys, whatever the order of the timers was.
type expansion struct {
	store *Scheduling
	c     sqldb.Runner
	plan  store.Planner
	nowMS int64

	calendar map[timer.ID]bool // timers whose Replan is for a calendar or time zone

	// set by findAhead, with an entry for each timer that it searched
	openAhead map[timer.ID][]timer.Fire
	// mixedZones has the zones for which processes have different rules. findMixedZones sets it; nil:
	// not read yet.
	mixedZones map[string]bool

	isEdit     bool                // plans are shortened
	replans    map[timer.ID]int64  // until when the replans of these timers go
	openUntil  map[timer.ID]int64  // the instant behind the last open fire of edited timers
	replanRows map[timer.ID]replan // rows of replans to write; zero: to delete

	// begun has the timers whose plan begins anew with their present version, and with it the chain
	// of a fixed delay.
	begun map[timer.ID]bool

	// newFires are to be inserted. Their timers never had another version, so no row can exist.
	newFires []timer.Fire
	// mergeFires are to be inserted or moved: an edit, or an activation of a fixed delay, may have
	// left a row.
	mergeFires []timer.Fire
	single     map[timer.ID]bool // timers in mergeFires that have one fire at a time
	// replaced are fires of one-shots, locked and unowned. They end as superseded, unless they are
	// in mergeFires.
	replaced       []timer.Fire
	moved          []timer.Fire       // to move to their new version if they are open
	skips          []timer.Outcome    // to insert
	copiedVersions []store.VersionKey // versions to copy to the next one

	stretches   []inactivityRow              // that began or ended, to write
	reactivated []timer.ID                   // timers whose deferred fires are to be released
	deferred    map[timer.FireID]deferredRow // set by flush: the deferred fires of these timers
	released    map[timer.ID][]timer.Fire    // set by flush: released fires, for the window

	// resolved is set by flush. It has the fires of mergeFires and moved that had a row, as they
	// are now; nil: the window needs no new entry.
	resolved       map[timer.FireID]*timer.Fire
	alreadyCounted map[timer.ID]int64 // set by flush: how many of mergeFires are not new
	// chainBefore is where a fixed delay was that is activated. If that fire is open and left to its
	// owner, it counts still.
	chainBefore map[timer.ID]int64
}

func (s *Scheduling) newExpansion(c sqldb.Runner, plan store.Planner, nowMS int64) *expansion {
	return &expansion{
		store:          s,
		c:              c,
		plan:           readable(plan),
		nowMS:          nowMS,
		calendar:       map[timer.ID]bool{},
		openAhead:      map[timer.ID][]timer.Fire{},
		replans:        map[timer.ID]int64{},
		openUntil:      map[timer.ID]int64{},
		replanRows:     map[timer.ID]replan{},
		begun:          map[timer.ID]bool{},
		released:       map[timer.ID][]timer.Fire{},
		resolved:       map[timer.FireID]*timer.Fire{},
		alreadyCounted: map[timer.ID]int64{},
		chainBefore:    map[timer.ID]int64{},
		single:         map[timer.ID]bool{},
	}
}

// begin activates a timer from now on. If its pause has an end that has passed, the activation
// counts from that end, not from when somebody noticed. It adds 1 to the epoch. The schedule counts
// from the first activation.
func (x *expansion) begin(t *timer.Timer) {
	sinceMS := x.nowMS
	if pauseIsOver(t, x.nowMS) {
		sinceMS = max(t.PausedUntilMS, t.InactiveSinceMS)
	}
	x.endStretch(t, sinceMS)
	if t.ActiveEpoch > 0 {
		x.reactivated = append(x.reactivated, t.ID)
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
		// Each activation begins a new chain, after all fires of the one before.
		t.NextDueMS = sinceMS + 1
	}
}

// pauseIsOver reports whether the end of a timer's pause has passed and nobody has activated the
// timer yet.
func pauseIsOver(t *timer.Timer, nowMS int64) bool {
	return t.Status == timer.StatusPaused && t.PausedUntilMS > 0 && t.PausedUntilMS <= nowMS
}

// endPauses activates the timers whose pause is over and that no migrator has taken yet. The
// caller's change then finds them in the state that they have by the clock.
func (x *expansion) endPauses(
	ctx context.Context,
	byID map[timer.ID]*timer.Timer,
) (fires []timer.Fire, err error) {
	var over []timer.ID
	for id, t := range byID {
		if pauseIsOver(t, x.nowMS) && t.Definition.Unreadable == "" { // else the pause goes on
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
	return x.marked(fires), x.store.timers.AddChanges(ctx, x.c, over)
}

// activate begins an activation and plans its first part.
func (x *expansion) activate(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	undecidedMS, err := x.undecidedSince(ctx, t)
	if err != nil {
		return nil, err
	}
	x.begin(t)
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		x.chainBefore[t.ID] = t.LastDueMS
	}
	if err := x.endChain(ctx, t); err != nil {
		return nil, err
	}
	if t.Definition.Schedule.Kind == timer.KindFixedDelay {
		t.LastDueMS = 0 // of the chain before: under a calendar the new one may be due sooner
	}
	return x.proceedFrom(ctx, t, undecidedMS)
}

// undecidedSince returns since when a timer has not been active: an only instant that came due
// since then waits for this activation. InactiveSinceMS is the begin of the latest stretch only. A
// pause that was changed, or made a deactivation, has earlier ones. All stretches since the last
// activation follow each other without a gap (S29). Who may add one has locked the timer's row.
// Stretches that retention has removed are not known any more.
func (x *expansion) undecidedSince(ctx context.Context, t *timer.Timer) (int64, error) {
	if !t.Replan || !x.calendar[t.ID] || !t.Definition.Schedule.Kind.OneShot() ||
		t.LastDueMS != 0 || t.InactiveSinceMS == 0 {
		return t.InactiveSinceMS, nil // it decides nothing: see proceedFrom
	}
	var first []int64
	err := x.store.db.SelectAll(
		ctx,
		x.c,
		&first,
		sqldb.Stmt("SELECT from_ms FROM inactivities WHERE timer_id=").Int(int64(t.ID)).
			Add(" AND from_ms>=").Int(t.ActiveSinceMS).
			Add(" ORDER BY from_ms LIMIT 1"),
	)
	// The latest stretch may have begun in this transaction, and not be written yet.
	return slices.Min(append(first, t.InactiveSinceMS)), err
}

// endChain ends the fire that the chain before this activation of a fixed delay had ahead, so that
// it does not count towards max_fires. It locks the fire. If a session owns it or it had an attempt,
// it is left to its owner.
func (x *expansion) endChain(ctx context.Context, t *timer.Timer) error {
	if s := &t.Definition.Schedule; s.Kind != timer.KindFixedDelay || s.MaxFires == 0 ||
		t.LastDueMS <= t.ActiveSinceMS {
		return nil
	}
	last := []timer.FireID{{Timer: t.ID, DueMS: t.LastDueMS}}
	open, err := x.store.fires.Open(ctx, x.c, last, x.store.db.Dialect.ForUpdate)
	for _, f := range open {
		if f.Owner == 0 && f.Attempt == 0 && f.State == timer.FireReady && f.Epoch < t.ActiveEpoch {
			x.replaced = append(x.replaced, f)
			t.FiresCreated = max(0, t.FiresCreated-1)
			delete(x.chainBefore, t.ID)
		}
	}
	return err
}

// proceed plans the next part of an active timer, and replans it if Replan is set: see S20. If the
// plan fails, Replan stays set.
//
// A calendar may change without an edit. Executors then could not tell which fires the new plan
// does not have. proceed therefore creates a new version with the same definition, if anything is
// expanded beyond now. After an edit this is not needed: there is a new version, and the edit has
// taken back what was expanded.
func (x *expansion) proceed(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	return x.proceedFrom(ctx, t, x.nowMS+1)
}

// proceedFrom is proceed. A one-shot without a fire has missed its instant if that was before
// undecidedMS.
func (x *expansion) proceedFrom(
	ctx context.Context,
	t *timer.Timer,
	undecidedMS int64,
) ([]timer.Fire, error) {
	was, copiedVersions := *t, len(x.copiedVersions)
	openUntilMS := x.openUntil[t.ID]
	t.Replan = false
	calendar := x.calendar[t.ID]
	if was.Replan && calendar && t.NextDueMS > x.nowMS+1 {
		ahead, err := x.aheadOfReplan(ctx, t)
		if err != nil {
			return nil, err
		}
		if t.NextDueMS == timer.NeverMS && t.Definition.Schedule.Kind.OneShot() &&
			len(ahead) == 0 && !store.NewlyDue(t, undecidedMS, x.plan) {
			// It was due before, and is not due again. A fire may have been added, see Rows.Keep.
			t.ExpandAtMS = x.nowMS + store.AddedFireRetention.Milliseconds()
			return nil, nil
		}
		openUntilMS = t.LastDueMS + 1
		x.takeBack(t, int64(len(ahead)))
		if t.Definition.Schedule.Kind == timer.KindFixedDelay && len(ahead) > 0 {
			// The delay goes on. If it began anew with each change of a calendar, often enough ones
			// would keep the timer from ever being due.
			t.NextDueMS = store.DelayBefore(t, ahead[len(ahead)-1].DueMS, x.nowMS, true)
		}
		x.copiedVersions = append(
			x.copiedVersions,
			store.VersionKey{Timer: t.ID, Version: t.Version},
		)
		t.Version, t.VersionMS, t.UpdatedMS = t.Version+1, x.nowMS, x.nowMS
	}
	fires, ok := x.expand(t)
	if !ok && was.Replan {
		was.ExpandAtMS = t.ExpandAtMS
		if *t, x.copiedVersions = was, x.copiedVersions[:copiedVersions]; calendar {
			delete(x.begun, t.ID)
		}
	}
	if ok && was.Replan {
		fires = append(fires, x.planRest(t, openUntilMS)...)
	}
	return fires, nil
}

// takeBack begins a new plan and sets the expansion back to now. The open fires beyond now keep
// their rows. Executors skip those that the next plan does not have, because their version is not
// the present one.
func (x *expansion) takeBack(t *timer.Timer, open int64) {
	x.begun[t.ID] = true
	t.LastDueMS = 0
	x.rewind(t, open)
}

// rewind sets the expansion back to now. open is the number of open fires beyond now.
func (x *expansion) rewind(t *timer.Timer, open int64) {
	if t.NextDueMS > x.nowMS+1 {
		t.NextDueMS = x.nowMS + 1
		t.FiresCreated = max(0, t.FiresCreated-open)
	}
}

// expand plans the next part of a timer and returns its fires. If the plan fails, it only postpones
// the timer.
func (x *expansion) expand(t *timer.Timer) (fires []timer.Fire, ok bool) {
	p := x.planNext(t)
	if p.Err != nil {
		t.ExpandAtMS = p.ExpandAtMS
		if t.ExpandAtMS <= x.nowMS {
			t.ExpandAtMS = x.nowMS + planRetryDelay.Milliseconds()
		}
		x.store.db.Log.Warn().
			Err(p.Err).
			Int64("timer", int64(t.ID)).
			Int64("again_ms", t.ExpandAtMS).
			Msg("timer cannot be expanded")
		return nil, false
	}
	x.shorten(t, &p)
	x.addPlan(t, &p)
	return p.Fires, true
}

// addPlan advances a timer past a plan and collects the plan's fires and skips.
func (x *expansion) addPlan(t *timer.Timer, p *store.Plan) {
	t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
	t.FiresCreated += int64(len(p.Fires))
	if n := len(p.Fires); n > 0 {
		t.LastDueMS = max(t.LastDueMS, p.Fires[n-1].DueMS)
	}
	x.skips = append(x.skips, p.Skips...)
	// The chain of an earlier activation may have left a fire at this instant, if a calendar
	// excludes all instants before it.
	if t.Version > 1 || t.ActiveEpoch > 1 && t.Definition.Schedule.Kind == timer.KindFixedDelay {
		x.mergeFires = append(x.mergeFires, p.Fires...)
		x.single[t.ID] = !t.Definition.Schedule.Kind.Repeats()
	} else {
		x.newFires = append(x.newFires, p.Fires...)
	}
}

// rounds bounds the expansion in one change: 30,000 fires if the planner plans 300 at once.
const rounds = 100

// expandPast expands what came due while the timer was active and was not expanded yet. The timer
// stops being active, so no migrator expands it, and each of those instants must have an outcome,
// if only a skip. Later instants are left for the next activation.
//
// If there are more fires than one change may insert, or if this process cannot plan the timer, one
// record stands for the rest.
func (x *expansion) expandPast(t *timer.Timer) (fires []timer.Fire) {
	for range rounds {
		if t.NextDueMS > x.nowMS {
			return fires
		}
		p := x.planNext(t)
		if p.Err != nil {
			break
		}
		cutPlan(&p, x.nowMS)
		x.addPlan(t, &p)
		fires = append(fires, p.Fires...)
		if plannedFires(&p) == 0 {
			return fires
		}
	}
	if rest := store.Unplanned(t, x.nowMS); rest != nil {
		x.skips, t.NextDueMS = append(x.skips, rest...), x.nowMS+1
	}
	return fires
}

// unlimited is a number of created fires with which no max_fires is reached.
const unlimited = -1 << 40

// ahead returns the open fires of a timer that are due later than now, without those that an edit or
// an activation left behind. No index leads from a timer to its fires, so it plans the schedule again
// over what is expanded. It needs no lock: only the owner of the lock on the timer's row adds fires,
// and future ones are not recorded yet.
func (x *expansion) ahead(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	var ids []timer.FireID
	if t.Definition.Schedule.Kind != timer.KindFixedDelay {
		ids = x.plannedAhead(t)
	} else if t.LastDueMS > x.nowMS {
		// Each fire follows from the end of the one before, so the latest is the open one. A plan
		// would be a new chain. Under a calendar that may come to a fire of an earlier chain.
		ids = []timer.FireID{{Timer: t.ID, DueMS: t.LastDueMS}}
	}
	if t.Definition.Schedule.Kind.OneShot() && t.Status != timer.StatusActive {
		// A one-shot that came due meanwhile waits for the next activation, and is due then.
		var rows []sqldb.FireIDRow
		if err := x.store.db.SelectAll(
			ctx,
			x.c,
			&rows,
			sqldb.Stmt(
				"SELECT timer_id,due_ms,series FROM deferred_fires WHERE timer_id=",
			).Int(int64(t.ID)).
				Add(" AND series=0"),
		); err != nil {
			return nil, err
		}
		for _, r := range rows {
			ids = append(ids, r.FireID())
		}
		ids = sqldb.SortedIDs(ids)
	}
	var open []timer.Fire
	for part := range sqldb.Batches(ids) {
		rows, err := x.store.fires.Open(ctx, x.c, part, "")
		if err != nil {
			return nil, err
		}
		open = append(open, rows...)
	}
	return open, nil
}

// plannedAhead returns the instants beyond now that a timer's plan has and that are expanded, in
// order.
func (x *expansion) plannedAhead(t *timer.Timer) (ids []timer.FireID) {
	probe := *t
	probe.NextDueMS, probe.FiresCreated = x.nowMS+1, unlimited
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
	return ids
}
