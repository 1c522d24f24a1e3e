package memstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// row is a timer with all its versions.
type row struct {
	timer.Timer

	text           []byte                     // the definition in canonical form
	versions       map[int32]timer.Definition // from 1
	versionSinceMS map[int32]int64            // when each version came into force
	planVersions   map[int32]int32            // the oldest version with the same plan as each

	replanCalendar bool // Replan is set for a calendar or time zone
	// From next_due up to replanUntilMS, an edit has not decided yet; 0: it has. The next page of
	// its follow-up is due at nextPageMS.
	replanUntilMS, nextPageMS int64
	chainBeforeMS             int64 // during an activation: where the chain before it was
	planVersion               int32 // the oldest version with the same plan as the present one

	inactive []timer.Inactivity           // when it was not active, in order
	deferred map[timer.FireID]deferredRun // fires that wait until it is active

	// lastCallEndedMS is when the last call of the schedule ended, for a fixed delay.
	lastCallEndedMS int64
	slot            timer.FireID          // the fire that has the slot
	lastSlot        timer.FireID          // the one that had it last, while none has it
	queue           map[timer.FireID]bool // fires that wait for the slot
	catchUpDueMS    int64                 // due instant of the fire that runs for all misfired ones
	catchUpToMS     int64                 // the latest due instant that it stands for
}

// nameKey is the name of a timer, or an idempotency key, in an app.
type nameKey struct{ app, name string }

type key struct {
	hash []byte
	row  *row
	atMS int64
}

type change struct {
	seq, atMS int64
	row       *row
	app       *store.App // set if the change is about a whole app
}

func (s *Store) log(nowMS int64, t *row, app *store.App) int64 {
	s.lastSeq++
	s.changes = append(s.changes, change{seq: s.lastSeq, atMS: nowMS, row: t, app: app})
	return s.lastSeq
}

// canonical returns a definition as a database would return it, and its text.
func canonical(d timer.Definition) (timer.Definition, []byte, error) {
	for _, at := range []**time.Time{&d.Schedule.At, &d.Schedule.Anchor, &d.Schedule.StartAt, &d.Schedule.EndAt} {
		if *at != nil {
			utc := (*at).UTC()
			*at = &utc
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return d, nil, fmt.Errorf("encoding the definition: %w", err)
	}
	var back timer.Definition
	if err := json.Unmarshal(text, &back); err != nil {
		return d, nil, fmt.Errorf("decoding the definition: %w", err)
	}
	return back, text, nil
}

// Create decides the items one by one.
func (s *Store) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, timer.Unavailable("creating timers", err)
	}
	created := make([]row, len(items))
	for i, it := range items {
		var err error
		if created[i].Definition, created[i].text, err = canonical(it.Definition); err != nil {
			return nil, err
		}
	}
	defer s.lockToWrite(ctx)()
	var out []store.CreateResult
	for i := range items {
		r := s.create(&items[i], &created[i], plan)
		if r.Err == nil && !r.Existing {
			e, err := store.AuditTimerCreated(&r.Timer)
			s.addAudit(actorOf(ctx, items[i].By), items[i].App, e, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// metered returns how many timers have metrics.
func (s *Store) metered() (n int) {
	for _, t := range s.rows {
		if t.Definition.Metrics && t.Status != timer.StatusDeleted {
			n++
		}
	}
	return n
}

func (s *Store) create(it *store.NewTimer, created *row, plan store.Planner) store.CreateResult {
	if err := s.refuseDeleted(it.App); err != nil {
		return store.CreateResult{Err: err}
	}
	if err := store.CheckIdempotencyKey(it.IdempotencyKey); err != nil {
		return store.CreateResult{Err: err}
	}
	idem := nameKey{it.App, it.IdempotencyKey}
	if k := s.keys[idem]; it.IdempotencyKey != "" && k != nil {
		if !bytes.Equal(k.hash, it.RequestHash) {
			return store.CreateResult{Err: store.KeyTaken()}
		}
		return store.CreateResult{Timer: k.row.Timer, Existing: true}
	}
	nowMS := s.nowMS()
	t, existing := s.names[nameKey{it.App, it.Name}]
	if existing && !bytes.Equal(t.text, created.text) {
		return store.CreateResult{
			Err: store.NameTaken(),
		}
	}
	if !existing {
		if err := s.noCalendar(it.App, &it.Definition.Schedule); err != nil {
			return store.CreateResult{Err: err}
		}
	}
	if !existing && created.Definition.Metrics && s.metered() >= store.MaxMeteredTimers {
		return store.CreateResult{Err: store.TooManyMetered()}
	}
	var fires []timer.Fire
	if !existing {
		t = created
		t.Name, t.Status, t.Version = it.Name, timer.StatusInactive, 1
		t.Origin = it.Origin
		t.App, t.AppID = it.App, s.app(it.App).ID
		t.CreatedMS, t.UpdatedMS, t.VersionMS = nowMS, nowMS, nowMS
		t.versions, t.versionSinceMS = map[int32]timer.Definition{
			1: t.Definition,
		}, map[int32]int64{
			1: nowMS,
		}
		t.planVersions = map[int32]int32{1: 1}
		t.queue = make(map[timer.FireID]bool)
		s.fillCalendars(t)
		for t.ID == 0 || s.timers[t.ID] != nil {
			t.ID = s.ids.Next()
		}
		s.timers[t.ID], s.names[nameKey{it.App, it.Name}] = t, t
		s.rows = append(s.rows, t)
		if it.Activate {
			fires = s.activate(t, plan, nowMS)
		}
	}
	if it.IdempotencyKey != "" {
		s.keys[idem] = &key{hash: bytes.Clone(it.RequestHash), row: t, atMS: nowMS}
	}
	return store.CreateResult{Timer: t.Timer, Existing: existing, Fires: fires}
}

func (s *Store) app(name string) *store.App {
	a := s.apps[name]
	if a == nil {
		a = &store.App{ID: int64(len(s.apps) + 1), Name: name}
		s.apps[name] = a
	}
	return a
}

// Timer returns one timer.
func (s *Store) Timer(_ context.Context, app string, id timer.ID) (timer.Timer, error) {
	defer s.lock()()
	t := s.timers[id]
	if t == nil || t.App != app || t.Status == timer.StatusDeleted {
		return timer.Timer{}, timer.NotFound("timer", id)
	}
	return t.Timer, nil
}

// List returns an app's timers in order of id.
func (s *Store) List(_ context.Context, q store.Query) ([]timer.Timer, error) {
	defer s.lock()()
	var out []timer.Timer
	for _, t := range s.rows {
		wanted := t.Status == q.Status || q.Status == "" && t.Status != timer.StatusDeleted
		if t.App == q.App && t.ID > q.After && wanted {
			out = append(out, t.Timer)
		}
	}
	slices.SortFunc(out, func(a, b timer.Timer) int { return int(a.ID - b.ID) })
	return out[:min(len(out), q.Limit)], nil
}

// SetStatus applies the items one by one.
func (s *Store) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
	plan store.Planner,
) ([]store.StatusResult, error) {
	defer s.lockToWrite(ctx)()
	out := make([]store.StatusResult, len(items))
	for i, it := range items {
		t := s.timers[it.ID]
		if t == nil || t.App != it.App ||
			t.Status == timer.StatusDeleted && it.Status != timer.StatusDeleted {
			out[i].Err = timer.NotFound("timer", it.ID)
			continue
		}
		nowMS := s.nowMS()
		ended := s.endPause(t, plan, nowMS)
		if out[i].Err = it.Refused(&t.Timer); out[i].Err != nil {
			out[i].Timer, out[i].Fires = t.Timer, ended
			continue
		}
		same := it.Status != timer.StatusPaused ||
			t.PauseReason == it.Reason && t.PausedUntilMS == it.UntilMS
		if t.Status != it.Status || !same {
			was := t.Timer
			out[i].Fires = s.setStatus(t, &it, plan, nowMS)
			e, err := store.AuditStatusSet(&was, &t.Timer)
			s.addAudit(actorOf(ctx, it.By), t.App, e, err)
			out[i].Seq = s.log(nowMS, t, nil)
		}
		out[i].Timer, out[i].Fires = t.Timer, append(out[i].Fires, ended...)
	}
	return out, nil
}

func (s *Store) setStatus(
	t *row,
	it *store.StatusChange,
	plan store.Planner,
	nowMS int64,
) (fires []timer.Fire) {
	if it.Status == timer.StatusActive {
		return s.activate(t, plan, nowMS)
	}
	if t.Status == timer.StatusActive {
		fires = s.expandPast(t, plan, nowMS)
	}
	t.endStretch(nowMS)
	t.Status, t.UpdatedMS, t.InactiveSinceMS = it.Status, nowMS, nowMS
	t.PauseReason, t.PausedUntilMS = "", 0
	switch it.Status {
	case timer.StatusDeleted:
		t.ExpandAtMS = nowMS
		delete(s.names, nameKey{t.App, t.Name})
		return append(fires, s.releaseDeferred(t)...)
	case timer.StatusInactive, timer.StatusActive:
	case timer.StatusPaused:
		t.PauseReason, t.PausedUntilMS, t.ExpandAtMS = it.Reason, it.UntilMS, it.UntilMS
		if it.UntilMS == 0 {
			t.ExpandAtMS = timer.NeverMS
		}
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
	}
	until := timer.NeverMS
	if t.PausedUntilMS > 0 {
		until = t.PausedUntilMS
	}
	t.inactive = append(
		t.inactive,
		timer.Inactivity{FromMS: nowMS, UntilMS: until, Status: t.Status},
	)
	s.wakeRequested(t, nowMS)
	return fires
}
