package scheduling

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TimerByName returns a timer of an app that is not deleted.
func (s *Scheduling) TimerByName(ctx context.Context, app, name string) (t timer.Timer, err error) {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return timer.Timer{}, err
	}
	err = s.db.Read(ctx, "reading a timer", func(ctx context.Context, c sqlx.QueryerContext) error {
		var row timers.Row
		err := s.db.SelectOne(
			ctx,
			c,
			&row,
			sqldb.Stmt("SELECT "+timers.Columns+" FROM timers WHERE app_id=").Int(appID).
				Add(" AND live_name=").Bind(name),
		)
		if errors.Is(err, sql.ErrNoRows) {
			return timer.NotFound("timer", name)
		}
		if err != nil {
			return err
		}
		ts, err := s.timers.CompleteAll(ctx, c, []timers.Row{row}, nil)
		if err != nil {
			return err
		}
		t = ts[0]
		return nil
	})
	return t, err
}

// Edit first locks the calendars of the new definitions for sharing, as Create does, then the
// timers' rows in order of id. Of two edits of one timer, the second works on the result of the
// first, or is refused by its IfVersion. An expansion runs before or after a whole edit. A repeated
// call finds its definition there and changes nothing.
func (s *Scheduling) Edit(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) (out []store.EditResult, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	e := &editBatch{
		store: s,
		plan:  plan,
		items: items,
		texts: make([]encodedDefinition, len(items)),
	}
	for i := range items {
		if items[i].Definition.Unreadable != "" {
			continue // wanted refuses it
		}
		if e.texts[i].text, e.texts[i].hash, err = timers.EncodeDefinition(
			items[i].Definition,
		); err != nil {
			return nil, err
		}
		app, err := s.apps.ID(ctx, items[i].App)
		if err != nil {
			return nil, err
		}
		for _, name := range items[i].Definition.Schedule.Calendars {
			e.named = append(e.named, timers.NameKey{App: app, Name: name})
		}
	}
	err = s.db.Write(ctx, "editing timers", func(ctx context.Context, c sqldb.Runner) error {
		e.c, e.out = c, make([]store.EditResult, len(items))
		out = nil
		if err := e.run(ctx); err != nil {
			return err
		}
		out = e.out
		return nil
	})
	// With an error, out is what the last commit would have done: nobody knows whether it did.
	return out, err
}

// editBatch is one transaction of Edit.
type editBatch struct {
	store *Scheduling
	plan  store.Planner
	items []store.Edit
	texts []encodedDefinition
	named []timers.NameKey // calendars of the new definitions

	c      sqldb.Runner
	room   int // for timers with metrics
	out    []store.EditResult
	shared timers.Calendars
	byID   map[timer.ID]*timer.Timer
	hashes map[timer.ID][]byte
}

func (e *editBatch) run(ctx context.Context) (err error) {
	if e.shared, err = e.store.timers.ShareCalendars(ctx, e.c, e.named); err != nil {
		return err
	}
	ids := make([]timer.ID, len(e.items))
	for i := range e.items {
		ids[i] = e.items[i].ID
	}
	e.hashes = make(map[timer.ID][]byte, len(ids))
	byID, calendar, err := e.store.timers.LockAll(ctx, e.c, ids, e.hashes)
	if err != nil {
		return err
	}
	e.byID = byID
	if e.room, err = e.store.timers.MeteredRoom(ctx, e.c, e.turnsMetricsOn()); err != nil {
		return err
	}
	nowMS, err := e.store.db.NowMS(ctx, e.c)
	if err != nil {
		return err
	}
	ending := e.store.newExpansion(e.c, e.plan, nowMS)
	ending.calendar = calendar
	if err := ending.findReplansByID(ctx, byID); err != nil {
		return err
	}
	ended, err := ending.endPauses(ctx, byID)
	if err != nil {
		return err
	}
	// Items about one timer go to separate rounds: the second needs what the first has written.
	for rest := indexes(len(ids)); len(rest) > 0; {
		var round, later []int
		seen := map[timer.ID]bool{}
		for _, i := range rest {
			if seen[ids[i]] {
				later = append(later, i)
				continue
			}
			seen[ids[i]] = true
			round = append(round, i)
		}
		x := e.store.newExpansion(e.c, e.plan, nowMS)
		x.calendar, x.replans, x.isEdit = calendar, ending.replans, true
		if err := e.round(ctx, x, round); err != nil {
			return err
		}
		rest = later
	}
	e.out[0].Fires = append(e.out[0].Fires, ended...)
	return nil
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func (e *editBatch) round(ctx context.Context, x *expansion, round []int) error {
	var changed []timer.ID
	var versions []timers.AddedVersion
	var uses, before []timers.CalendarUse
	var attributes timers.AttributeChanges
	var trail audit.Entries
	done := round[:0]
	for _, i := range round {
		t, err := e.wanted(i)
		if e.out[i].Err = err; err != nil {
			continue
		}
		if e.out[i].Timer = *t; bytes.Equal(e.hashes[t.ID], e.texts[i].hash) {
			fires, deactivated, err := e.deactivate(ctx, x, t, &e.items[i], &trail)
			if err != nil {
				return err
			}
			if deactivated {
				e.out[i].Fires, changed, done = fires, append(changed, t.ID), append(done, i)
			}
			continue
		}
		if e.out[i].Err = e.refuse(t, &e.items[i], x.nowMS); e.out[i].Err != nil {
			continue
		}
		version := t.Version
		was, had, err := e.store.timers.References(ctx, e.c, t)
		if err != nil {
			return err
		}
		e.out[i].Fires, err = e.apply(ctx, x, t, &e.items[i], &trail)
		if timer.CodeOf(err) == timer.CodeConflict {
			e.out[i].Err = err
			continue
		}
		if err != nil {
			return err
		}
		e.hashes[t.ID] = e.texts[i].hash
		trail.Add(audit.ActorOf(ctx, e.items[i].By), t.AppID, store.AuditTimerEdited(t, version))
		versions = append(versions, timers.AddedVersion{
			VersionKey: store.VersionKey{
				Timer:   t.ID,
				Version: t.Version,
			},
			SamePlan: !x.begun[t.ID],
			Hash:     e.texts[i].hash,
			Text:     e.texts[i].text,
		})
		if x.begun[t.ID] { // otherwise the calendars are the same
			before, uses = append(before, was...), append(uses, timers.TimerUses(t)...)
		}
		attributes.Edit(had, timers.TimerAttributes(t))
		changed, done = append(changed, t.ID), append(done, i)
	}
	if len(changed) == 0 {
		return nil
	}
	if err := x.flush(ctx); err != nil {
		return err
	}
	if err := e.store.timers.InsertVersions(ctx, e.c, versions, x.nowMS); err != nil {
		return err
	}
	if err := x.saveEach(ctx, e.byID, changed); err != nil {
		return err
	}
	if err := e.saveReferences(ctx, before, uses, &attributes); err != nil {
		return err
	}
	if err := e.store.audit.Save(ctx, e.c, &trail, x.nowMS); err != nil {
		return err
	}
	seqs, err := e.store.timers.LogChanges(ctx, e.c, changed)
	if err != nil {
		return err
	}
	for n, i := range done {
		e.out[i].Timer, e.out[i].Seq, e.out[i].Fires = *e.byID[changed[n]], seqs[n], x.marked(
			e.out[i].Fires,
		)
	}
	return nil
}

// saveReferences writes what leads to the edited timers.
func (e *editBatch) saveReferences(
	ctx context.Context,
	before, uses []timers.CalendarUse,
	attributes *timers.AttributeChanges,
) error {
	if err := e.store.timers.DeleteUses(ctx, e.c, before); err != nil {
		return err
	}
	if err := e.store.timers.InsertUses(ctx, e.c, uses); err != nil {
		return err
	}
	if err := e.store.timers.DeleteAttributes(ctx, e.c, attributes.Gone); err != nil {
		return err
	}
	return e.store.timers.InsertAttributes(ctx, e.c, attributes.Added)
}

func (e *editBatch) turnsMetricsOn() bool {
	return slices.ContainsFunc(e.items, func(it store.Edit) bool {
		t := e.byID[it.ID]
		return it.Definition.Metrics && t != nil && !t.Definition.Metrics
	})
}

// wanted returns the timer of an item, or the reason why it cannot be edited. If the timer has the
// item's definition already, and is inactive if the item wants that, the item was applied before, and
// its IfVersion is ignored.
func (e *editBatch) wanted(i int) (*timer.Timer, error) {
	it := &e.items[i]
	t := e.byID[it.ID]
	switch {
	case t == nil || t.App != it.App || t.Status == timer.StatusDeleted:
		return nil, timer.NotFound("timer", it.ID)
	case it.Definition.Unreadable != "":
		return nil, store.Unreadable(it.Definition.Unreadable)
	case it.IfVersion == 0 || it.IfVersion == t.Version:
		return t, nil
	}
	_, deactivates := it.Deactivation(t)
	if deactivates || !bytes.Equal(e.hashes[t.ID], e.texts[i].hash) {
		return nil, timer.Conflict("version", "the timer has another version by now")
	}
	return t, nil
}

// refuse returns why a timer cannot have a new definition, or nil.
func (e *editBatch) refuse(t *timer.Timer, it *store.Edit, nowMS int64) error {
	if err := e.shared.Missing(t.AppID, &it.Definition.Schedule); err != nil {
		return err
	}
	if err := it.Checked(t, nowMS); err != nil {
		return err //nolint:wrapcheck // it is the caller's
	}
	return timers.TakeMetered(&e.room, t.Definition.Metrics, it.Definition.Metrics)
}

// deactivate makes a timer inactive, if its item wants that and it is not.
func (e *editBatch) deactivate(
	ctx context.Context,
	x *expansion,
	t *timer.Timer,
	it *store.Edit,
	trail *audit.Entries,
) (fires []timer.Fire, done bool, err error) {
	change, wanted := it.Deactivation(t)
	if !wanted {
		return nil, false, nil
	}
	fires, err = x.setAudited(ctx, t, &change, trail)
	return fires, true, err
}

// apply creates the next version of a timer.
//
// If the due instants stay, open fires stay as they are. plan_version tells executors that the new
// version calls those due later than now. Only a change of priority moves them, since the priority
// is in their rows. If the due instants change, the old version plans what came due until now. The
// new version plans from then on, at once if the timer is active.
//
// If there are more than a few fires beyond now, the edit decides about the first of them and
// leaves the others, also for a change of priority, to the follow-up: see replan.go.
//
// A claim locks only rows of fires and reads no version, so it may come before or after. An
// executor that has claimed a fire sees the edit in the change log, like any change.
func (e *editBatch) apply(
	ctx context.Context,
	x *expansion,
	t *timer.Timer,
	it *store.Edit,
	trail *audit.Entries,
) ([]timer.Fire, error) {
	same, err := timers.SamePlan(t.Definition, it.Definition)
	if err != nil {
		return nil, err
	}
	same = same && !t.Replan
	unknown := t.Definition.Unreadable != "" && t.Definition.Schedule.Kind == ""
	if !same && (t.Definition.Schedule.Kind.OneShot() || unknown) {
		ahead, err := x.aheadOfEdit(ctx, t)
		if err != nil {
			return nil, err
		}
		same = store.HasComeDue(t, it.Definition, len(ahead))
		// With several fires an unknown schedule is no one-shot.
		if !same && (!unknown || len(ahead) == 1) {
			if err := e.replaceOneShot(ctx, x, t, &it.Definition, ahead); err != nil {
				return nil, err
			}
		}
	}
	// From here on no conflict is possible, which would leave the timer deactivated but not edited.
	if !same && store.MovesOneShot(t, &it.Definition) && t.Status == timer.StatusActive {
		x.passOver(t)
	}
	fires, _, err := e.deactivate(ctx, x, t, it, trail)
	if err != nil {
		return nil, err
	}
	var ahead []timer.Fire
	if t.Status == timer.StatusActive && !same {
		fires = x.expandPast(t)
		// What came due after the last fire that max_fires allowed is due by no version.
		if store.AllCreated(t) && t.Definition.Schedule.Kind.Repeats() {
			t.NextDueMS = max(t.NextDueMS, x.nowMS+1)
		}
		// What came due by the old definition is not the new one's.
		if unknown && t.NextDueMS <= x.nowMS {
			x.skips, t.NextDueMS = append(x.skips, store.Missed(t, x.nowMS)...), x.nowMS+1
		}
	}
	var open, untilMS int64
	if !same || t.Definition.Priority.PriorityLevel() != it.Definition.Priority.PriorityLevel() {
		if open, untilMS, err = x.manyAhead(ctx, t); err != nil {
			return nil, err
		}
		if untilMS == 0 {
			if ahead, err = x.aheadOfEdit(ctx, t); err != nil {
				return nil, err
			}
			open = int64(len(ahead))
			for i := range ahead {
				x.openUntil[t.ID] = max(x.openUntil[t.ID], ahead[i].DueMS+1)
			}
		}
	}
	var nextDueMS int64 // 0: the new version plans from now on
	if n := len(ahead); n > 0 && store.KeepsDelay(t, &it.Definition) {
		nextDueMS = store.DelayBefore(t, ahead[n-1].DueMS, x.nowMS, t.Replan)
	}
	t.Definition = it.Definition
	t.Version, t.VersionMS, t.UpdatedMS = t.Version+1, x.nowMS, x.nowMS
	t.Calendars = e.shared.Of(t)
	if untilMS > 0 {
		x.replans[t.ID] = max(x.replans[t.ID], untilMS)
		x.openUntil[t.ID] = untilMS
	}
	if !same && t.PausedUntilMS != 0 && recurring(t) && x.openUntil[t.ID] > 0 {
		// A migrator that ends the pause late plans as of its end: the misfire policy may leave out no
		// instant that has an open fire of the version before.
		x.replans[t.ID] = max(x.replans[t.ID], x.openUntil[t.ID])
	}
	if same && untilMS > 0 {
		x.rewind(t, open)
		more, err := e.continuePlan(ctx, x, t)
		return slices.Concat(fires, more), err
	}
	if same {
		for _, f := range ahead {
			f.Version, f.PriorityLevel = t.Version, t.Definition.Priority.PriorityLevel()
			x.moved = append(x.moved, f)
		}
		return fires, nil
	}
	delete(x.calendar, t.ID)
	x.takeBack(t, open)
	t.Replan = true
	more, err := e.continueFrom(ctx, x, t, nextDueMS)
	return slices.Concat(fires, more), err
}

// continueFrom is continuePlan, from an instant if that is not 0. If the plan fails, or has no fire as
// max_fires is reached, the timer stays where it is: the fire ahead may be skipped before another
// plan, which then begins the chain anew.
func (e *editBatch) continueFrom(
	ctx context.Context,
	x *expansion,
	t *timer.Timer,
	nextDueMS int64,
) ([]timer.Fire, error) {
	beginMS := t.NextDueMS
	t.NextDueMS = cmp.Or(nextDueMS, beginMS)
	fires, err := e.continuePlan(ctx, x, t)
	if t.Replan || t.NextDueMS == nextDueMS {
		t.NextDueMS = beginMS
	}
	return fires, err
}

// continuePlan plans the first fires of the new version, if the timer is active.
func (e *editBatch) continuePlan(
	ctx context.Context,
	x *expansion,
	t *timer.Timer,
) (fires []timer.Fire, err error) {
	if t.Status == timer.StatusActive {
		if fires, err = x.proceed(ctx, t); err != nil {
			return nil, err
		}
	}
	x.followUp(t, x.nowMS)
	return fires, nil
}

// replaceOneShot makes sure that of the old and the new instant of a one-shot only one is called.
// It locks the open fire: the one ahead, or one that has come due and was not called yet, because
// of its jitter, a limit or a breaker. If an executor owns it, that executor may be about to call,
// so the edit is refused. If nobody owns it, flush finishes it, and a task that is under way has no
// effect. A claim or an outcome comes before all of this, or finds the fire gone.
func (e *editBatch) replaceOneShot(
	ctx context.Context,
	x *expansion,
	t *timer.Timer,
	d *timer.Definition,
	ahead []timer.Fire,
) error {
	ids := sqldb.IDsOf(ahead)
	due := len(ids) == 0 && t.LastDueMS != 0 && store.MovesOneShot(t, d)
	if due {
		ids = []timer.FireID{{Timer: t.ID, DueMS: t.LastDueMS}}
	}
	if len(ids) == 0 {
		return nil
	}
	open, err := e.store.fires.Open(ctx, e.c, ids, e.store.db.Dialect.ForUpdate)
	if err != nil {
		return err
	}
	for i := range open {
		if err := store.RefuseMove(&open[i], due); err != nil {
			return err //nolint:wrapcheck // it says what to do
		}
	}
	x.replaced = append(x.replaced, open...)
	return nil
}

// passOver ends the instant of a one-shot that has come due and has no fire yet, as migrators are
// behind. It is not called: the timer moves to another one. If the plan fails, nothing was due by
// it, and the new version begins where it stands.
func (x *expansion) passOver(t *timer.Timer) {
	if t.NextDueMS > x.nowMS {
		return
	}
	p := x.planNext(t)
	if p.Err != nil {
		return
	}
	cutPlan(&p, x.nowMS)
	t.NextDueMS = p.NextDueMS
	x.skips = append(x.skips, p.Skips...)
	for i := range p.Fires {
		x.skips = append(x.skips, store.Superseded(p.Fires[i], x.nowMS))
	}
}
