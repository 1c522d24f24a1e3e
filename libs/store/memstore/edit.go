package memstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TimerByName returns a timer of an app that is not deleted.
func (s *Store) TimerByName(_ context.Context, app, name string) (timer.Timer, error) {
	defer s.lock()()
	t := s.names[nameKey{app, name}]
	if t == nil {
		return timer.Timer{}, timer.NotFound("timer", name)
	}
	return t.Timer, nil
}

// Edit applies the items one by one.
func (s *Store) Edit(
	ctx context.Context,
	items []store.Edit,
	plan store.Planner,
) ([]store.EditResult, error) {
	edited := make([]row, len(items))
	for i := range items {
		var err error
		if edited[i].Definition, edited[i].text, err = canonical(items[i].Definition); err != nil {
			return nil, err
		}
	}
	defer s.lockToWrite(ctx)()
	out := make([]store.EditResult, len(items))
	for i := range items {
		it := &items[i]
		t := s.timers[it.ID]
		if t == nil || t.App != it.App || t.Status == timer.StatusDeleted {
			out[i].Err = timer.NotFound("timer", it.ID)
			continue
		}
		if why := it.Definition.Unreadable; why != "" {
			out[i].Err = store.Unreadable(why)
			continue
		}
		ended := s.endPause(t, plan, s.nowMS())
		same := bytes.Equal(t.text, edited[i].text)
		change, deactivates := it.Deactivation(&t.Timer)
		if (!same || deactivates) && it.IfVersion != 0 && it.IfVersion != t.Version {
			out[i].Err, out[i].Fires = timer.Conflict(
				"version",
				"the timer has another version by now",
			), ended
			continue
		}
		if err := s.noCalendar(t.App, &it.Definition.Schedule); !same && err != nil {
			out[i].Err, out[i].Fires = err, ended
			continue
		}
		if !same && edited[i].Definition.Metrics && !t.Definition.Metrics &&
			s.metered() >= store.MaxMeteredTimers {
			out[i].Err, out[i].Fires = store.TooManyMetered(), ended
			continue
		}
		nowMS := s.nowMS()
		if !same {
			if err := it.Checked(&t.Timer, nowMS); err != nil {
				out[i].Err, out[i].Fires = err, ended
				continue
			}
		}
		deactivate := func() (fires []timer.Fire) {
			if deactivates {
				was := t.Timer
				fires = s.setStatus(t, &change, plan, nowMS)
				e, err := store.AuditStatusSet(&was, &t.Timer)
				s.addAudit(actorOf(ctx, it.By), t.App, e, err)
			}
			return fires
		}
		if same && deactivates {
			out[i].Fires = deactivate()
			out[i].Seq = s.log(nowMS, t, nil)
		}
		if !same {
			version := t.Version
			fires, err := s.edit(t, &edited[i], plan, nowMS, deactivate)
			if timer.CodeOf(err) == timer.CodeConflict {
				out[i].Err, out[i].Fires = err, ended
				continue
			}
			if err != nil {
				return nil, err
			}
			out[i].Fires = fires
			out[i].Seq = s.log(nowMS, t, nil)
			s.addAudit(actorOf(ctx, it.By), t.App, store.AuditTimerEdited(&t.Timer, version), nil)
		}
		out[i].Timer, out[i].Fires = t.Timer, append(out[i].Fires, ended...)
	}
	return out, nil
}

// edit calls deactivate once there can be no conflict anymore.
func (s *Store) edit(
	t, edited *row, plan store.Planner, nowMS int64, deactivate func() []timer.Fire,
) ([]timer.Fire, error) {
	same, err := samePlan(t.Definition, edited.Definition)
	if err != nil {
		return nil, err
	}
	same = same && !t.Replan
	var replaced []*timer.Fire
	if !same && t.Definition.Schedule.Kind.OneShot() {
		replaced = s.ahead(t, nowMS)
		same = store.HasComeDue(&t.Timer, edited.Definition, len(replaced))
		if !same {
			if replaced, err = s.replaceOneShot(t, &edited.Definition, replaced); err != nil {
				return nil, err
			}
		}
	}
	if !same && store.MovesOneShot(&t.Timer, &edited.Definition) && t.Status == timer.StatusActive {
		s.passOver(t, plan, nowMS)
	}
	fires := deactivate()
	if t.Status == timer.StatusActive && !same {
		fires = s.expandPast(t, plan, nowMS)
		// What came due after the last fire that max_fires allowed is due by no version.
		if store.AllCreated(&t.Timer) && t.Definition.Schedule.Kind.Repeats() {
			t.NextDueMS = max(t.NextDueMS, nowMS+1)
		}
	}
	var openUntilMS, nextDueMS int64
	var many bool
	priority := t.Definition.Priority.PriorityLevel() != edited.Definition.Priority.PriorityLevel()
	if !same || priority {
		ahead := s.ahead(t, nowMS)
		if len(ahead) > 0 {
			openUntilMS = lastDue(ahead) + 1
			if store.KeepsDelay(&t.Timer, &edited.Definition) {
				nextDueMS = store.DelayBefore(&t.Timer, lastDue(ahead), nowMS, t.Replan)
			}
		}
		if many = t.recurring() && !t.Replan && len(ahead) > s.maxEditFires; many {
			t.replanUntilMS = max(t.replanUntilMS, openUntilMS)
		}
		for _, f := range ahead {
			if same && !many {
				f.Version, f.PriorityLevel = t.Version+1, edited.Definition.Priority.PriorityLevel()
			}
		}
	}
	if !same || many {
		s.takeBack(t, nowMS)
	}
	if !same {
		t.LastDueMS = 0
	}
	t.Version++
	t.Definition, t.text, t.VersionMS, t.UpdatedMS = edited.Definition, edited.text, nowMS, nowMS
	t.versions[t.Version] = t.Definition
	t.versionSinceMS[t.Version] = t.VersionMS
	s.fillCalendars(t)
	if same {
		t.planVersions[t.Version] = t.planVersion
		if many {
			fires = append(fires, s.continuePlan(t, plan, nowMS, openUntilMS)...)
		}
		return fires, nil
	}
	if t.PausedUntilMS != 0 && t.recurring() { // see the sqlstore's edit
		t.replanUntilMS = max(t.replanUntilMS, openUntilMS)
	}
	t.Replan, t.replanCalendar, t.planVersion = true, false, t.Version
	t.planVersions[t.Version] = t.planVersion
	beginMS := t.NextDueMS
	t.NextDueMS = cmp.Or(nextDueMS, beginMS)
	fires = append(fires, s.continuePlan(t, plan, nowMS, openUntilMS)...)
	if t.Replan || t.NextDueMS == nextDueMS { // the plan failed, or max_fires lets it have no fire
		t.NextDueMS = beginMS
	}
	for _, f := range replaced {
		if f.Version < t.Version {
			o := store.Superseded(*f, nowMS)
			s.finish(f, &o, store.SystemSession)
		}
	}
	return fires, nil
}

// replaceOneShot returns the open fires of a one-shot that an edit ends: those ahead, or one that
// has come due and was not called yet.
func (s *Store) replaceOneShot(
	t *row,
	d *timer.Definition,
	ahead []*timer.Fire,
) ([]*timer.Fire, error) {
	due := len(ahead) == 0 && store.MovesOneShot(&t.Timer, d)
	if f := s.fires[timer.FireID{Timer: t.ID, DueMS: t.LastDueMS}]; due && f != nil {
		ahead = []*timer.Fire{f}
	}
	for _, f := range ahead {
		if err := store.RefuseMove(f, due); err != nil {
			return nil, err //nolint:wrapcheck // it says what to do
		}
	}
	return ahead, nil
}

// passOver ends the instant of a one-shot that has come due and has no fire yet.
func (s *Store) passOver(t *row, plan store.Planner, nowMS int64) {
	if t.NextDueMS > nowMS {
		return
	}
	p := planNext(t, plan, nowMS)
	if p.Err != nil {
		return
	}
	cutPlan(&p, nowMS)
	for i := range p.Fires {
		p.Skips = append(p.Skips, store.Superseded(p.Fires[i], nowMS))
	}
	s.addPlan(
		t,
		&store.Plan{Skips: p.Skips, NextDueMS: p.NextDueMS, ExpandAtMS: t.ExpandAtMS},
		nowMS,
	)
}

// continuePlan plans the first fires of the new version, if the timer is active.
func (s *Store) continuePlan(
	t *row,
	plan store.Planner,
	nowMS, openUntilMS int64,
) (fires []timer.Fire) {
	if t.Status == timer.StatusActive {
		fires = s.proceed(t, func(tm *timer.Timer, asOfMS int64) store.Plan {
			p := plan(tm, asOfMS)
			if p.Err == nil {
				p.Err = checkPlan(tm, &p)
			}
			if p.Err == nil {
				s.shorten(t, &p, nowMS, openUntilMS)
			}
			return p
		}, nowMS)
		if !t.Replan {
			fires = append(fires, s.planRest(t, plan, nowMS, openUntilMS)...)
		}
	}
	t.followUp(nowMS)
	return fires
}

func samePlan(a, b timer.Definition) (bool, error) {
	x, err := json.Marshal(timer.Definition{Schedule: a.Schedule, Misfire: a.Misfire})
	if err != nil {
		return false, fmt.Errorf("encoding a definition: %w", err)
	}
	y, err := json.Marshal(timer.Definition{Schedule: b.Schedule, Misfire: b.Misfire})
	if err != nil {
		return false, fmt.Errorf("encoding a definition: %w", err)
	}
	return bytes.Equal(x, y), nil
}

// AddFires inserts fires of a series other than 0.
func (s *Store) AddFires(
	ctx context.Context,
	app string,
	id timer.ID,
	fires []timer.Fire,
) (inserted []timer.Fire, err error) {
	defer s.lockToWrite(ctx)()
	if slices.ContainsFunc(
		fires,
		func(f timer.Fire) bool { return f.Timer != id || f.Series == 0 },
	) {
		return nil, timer.Invalid(
			"series",
			"a fire that is added is the timer's, of a series of its own",
		)
	}
	t := s.timers[id]
	if t == nil || t.App != app || t.Status == timer.StatusDeleted {
		return nil, timer.NotFound("timer", id)
	}
	for _, f := range fires {
		if _, done := s.ended[f.FireID]; done || s.fires[f.FireID] != nil {
			continue
		}
		if err := s.refuseFrozen(app); err != nil {
			return nil, err
		}
		f.AppID, f.Version, f.Epoch, f.Rev, f.Owner, f.TargetBits = t.AppID, t.Version, t.ActiveEpoch, 0, 0, 0
		f.PriorityLevel = t.Definition.Priority.PriorityLevel()
		s.insert(&f)
		inserted = append(inserted, f)
	}
	slices.SortFunc(inserted, timer.CompareFires)
	if len(inserted) > 0 {
		s.keep(t)
		e, err := store.AuditFiresAdded(&t.Timer, inserted)
		s.addAudit(store.ActorOf(ctx), app, e, err)
	}
	return inserted, nil
}

// App returns an app.
func (s *Store) App(_ context.Context, name string) (store.App, error) {
	defer s.lock()()
	a := s.apps[name]
	if a == nil {
		return store.App{}, store.NoSuchApp(name)
	}
	return *a, nil
}

// ListApps returns apps in order of name.
func (s *Store) ListApps(_ context.Context, after string, limit int) (all []store.App, err error) {
	defer s.lock()()
	for _, name := range slices.Sorted(maps.Keys(s.apps)) {
		if name > after && len(all) < limit {
			all = append(all, *s.apps[name])
		}
	}
	return all, nil
}

// refuseFrozen returns a conflict if the app is frozen.
func (s *Store) refuseFrozen(app string) error {
	if a := s.apps[app]; a != nil && a.Frozen {
		return store.FrozenConflict(app)
	}
	return nil
}

// SetFrozen freezes or unfreezes an app.
func (s *Store) SetFrozen(
	ctx context.Context,
	name string,
	frozen bool,
	reason string,
) (store.App, error) {
	defer s.lockToWrite(ctx)()
	a := s.apps[name]
	if a == nil {
		return store.App{}, store.NoSuchApp(name)
	}
	if err := s.refuseDeleted(name); err != nil {
		return store.App{}, err
	}
	if !frozen {
		reason = ""
	}
	was, is := store.AppAudit{
		Frozen: a.Frozen,
		Reason: a.Reason,
	}, store.AppAudit{
		Frozen: frozen,
		Reason: reason,
	}
	if was != is {
		e, err := store.AuditFreezeSet(name, was, is)
		s.addAudit(store.ActorOf(ctx), name, e, err)
	}
	a.Reason = reason
	if a.Frozen != frozen {
		nowMS := s.nowMS()
		a.Frozen, a.FrozenMS = frozen, 0
		if frozen {
			a.FrozenMS = nowMS
		}
		s.log(nowMS, nil, a)
	}
	return *a, nil
}
