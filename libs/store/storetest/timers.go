package storetest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func firesComeWithTheTimer(t *testing.T, s *setup) {
	due := (timer.MinuteOf(s.nowMS()) + 5) * timer.MinuteMS
	n := s.newTimer()
	n.Activate = true
	c := s.create(n, planAt(0, due, due+1000))
	require.Equal(t, timer.StatusActive, c.Timer.Status)
	require.EqualValues(t, 1, c.Timer.ActiveEpoch)
	require.EqualValues(t, 2, c.Timer.FiresCreated)
	require.Equal(t, timer.NeverMS, c.Timer.NextDueMS)
	require.InDelta(t, s.nowMS(), c.Timer.ActiveSinceMS, 10_000)
	require.Len(t, c.Fires, 2)
	loaded := s.slice(due)
	require.Equal(t, c.Fires, loaded)
	require.Equal(t, c.Timer.AppID, loaded[0].AppID)
	require.EqualValues(t, 1, loaded[0].Version)
	require.EqualValues(t, 1, loaded[0].Epoch)

	idle := s.create(s.newTimer(), planAt(0, due+1))
	require.Empty(t, idle.Fires)
	changed := s.setStatus(idle.Timer, timer.StatusActive, planAt(0, due+2))
	require.Len(t, changed.Fires, 1)
	require.Len(t, s.slice(due), 3)
	got, err := s.st().Timer(t.Context(), "app", idle.Timer.ID)
	require.NoError(t, err)
	require.Equal(t, changed.Timer, got)
}

// deactivationExpandsUpToNow deactivates timers that were not expanded for a while.
func deactivationExpandsUpToNow(t *testing.T, s *setup) {
	const second = 1000
	for _, to := range []timer.Status{timer.StatusInactive, timer.StatusDeleted} {
		now := s.nowMS()
		next := now - 60*second
		// Each has four fires, ten seconds apart.
		plan := func(t *timer.Timer, _ int64) store.Plan {
			if t.NextDueMS == 0 {
				return store.Plan{NextDueMS: next, ExpandAtMS: now + timer.MinuteMS}
			}
			var p store.Plan
			for i := range int64(4) {
				due := t.NextDueMS + i*10*second
				p.Fires = append(
					p.Fires,
					timer.Fire{FireID: timer.FireID{Timer: t.ID, DueMS: due}, RunAtMS: due},
				)
			}
			p.NextDueMS = t.NextDueMS + 40*second
			p.ExpandAtMS = p.NextDueMS
			return p
		}
		n := s.newTimer()
		n.Activate = true
		made := s.create(n, plan)
		require.Empty(t, made.Fires)
		off := s.setStatus(made.Timer, to, plan)
		require.InDelta(t, 7, len(off.Fires), 1, "due from a minute ago until now")
		for i, f := range off.Fires {
			require.Equal(t, next+int64(i)*10*second, f.DueMS)
			rec, err := s.st().Fire(t.Context(), "app", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Open)
		}
		require.EqualValues(t, len(off.Fires), off.Timer.FiresCreated)
		require.Equal(t, next+int64(len(off.Fires))*10*second, off.Timer.NextDueMS)
		require.Greater(t, off.Timer.NextDueMS, now)
		require.Empty(t, s.setStatus(made.Timer, to, plan).Fires)
	}
}

// slice loads all of bucket 0 of an instant's minute.
func (s *setup) slice(atMS int64) []timer.Fire {
	s.t.Helper()
	fires, err := s.st().
		LoadSlice(s.t.Context(), timer.MinuteOf(atMS), 0, store.Position{}, timer.NeverMS, 10_000)
	require.NoError(s.t, err)
	return fires
}

func refusedItemWritesNothing(t *testing.T, s *setup) {
	due := s.nowMS() + 5*timer.MinuteMS
	first := s.newTimer()
	s.create(first, noFires)
	refused := first
	refused.Definition, refused.Activate, refused.IdempotencyKey = definition(
		"http://b",
	), true, "key"
	good := s.newTimer()
	good.Activate = true
	out, err := s.st().Create(t.Context(), []store.NewTimer{refused, good}, planAt(0, due))
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, out[0].Err)
	require.NoError(t, out[1].Err)
	require.Equal(t, out[1].Fires, s.slice(due))
	// The key of a refused request can be used again.
	again := s.newTimer()
	again.IdempotencyKey = "key"
	require.False(t, s.create(again, noFires).Existing)

	unknown := timer.Timer{App: "app", ID: s.ids.Next()}
	changed, err := s.st().SetStatus(t.Context(), []store.StatusChange{
		{App: "app", ID: unknown.ID, Status: timer.StatusActive},
		{App: "other", ID: out[1].Timer.ID, Status: timer.StatusInactive},
		{App: "app", ID: out[1].Timer.ID, Status: timer.StatusInactive},
	}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeNotFound, changed[0].Err)
	requireCode(t, timer.CodeNotFound, changed[1].Err)
	require.NoError(t, changed[2].Err)
}

// tooLongKeyStopsNoOther checks that a key which no database could store is the error of its item.
func tooLongKeyStopsNoOther(t *testing.T, s *setup) {
	bad, good := s.newTimer(), s.newTimer()
	bad.IdempotencyKey = strings.Repeat("é", store.MaxIdempotencyKey/2+1)
	good.IdempotencyKey = strings.Repeat("k", store.MaxIdempotencyKey)
	out, err := s.st().Create(t.Context(), []store.NewTimer{bad, good}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeInvalid, out[0].Err)
	require.EqualError(t, out[0].Err,
		"idempotency_key: expected at most 255 bytes, found 256: use a shorter key")
	require.NoError(t, out[1].Err)
	require.False(t, out[1].Existing)
	_, err = s.st().TimerByName(t.Context(), bad.App, bad.Name)
	requireCode(t, timer.CodeNotFound, err)
	require.True(t, s.create(good, noFires).Existing)
}

// setStatus sets a status, which must succeed.
func (s *setup) setStatus(
	tm timer.Timer,
	status timer.Status,
	plan store.Planner,
) store.StatusResult {
	s.t.Helper()
	out, err := s.st().
		SetStatus(s.t.Context(), []store.StatusChange{{App: tm.App, ID: tm.ID, Status: status}}, plan)
	require.NoError(s.t, err)
	require.Len(s.t, out, 1)
	require.NoError(s.t, out[0].Err)
	return out[0]
}

func activationsCount(t *testing.T, s *setup) {
	tm := s.create(s.newTimer(), noFires).Timer
	require.Zero(t, tm.ActiveEpoch)
	on := s.setStatus(tm, timer.StatusActive, noFires)
	require.EqualValues(t, 1, on.Timer.ActiveEpoch)
	require.Positive(t, on.Timer.ActiveSinceMS)
	require.Positive(t, on.Seq)
	same := s.setStatus(tm, timer.StatusActive, noFires)
	require.Zero(t, same.Seq)
	require.Equal(t, on.Timer, same.Timer)
	off := s.setStatus(tm, timer.StatusInactive, noFires)
	require.EqualValues(t, 1, off.Timer.ActiveEpoch)
	require.Zero(t, s.setStatus(tm, timer.StatusInactive, noFires).Seq)
	require.EqualValues(t, 2, s.setStatus(tm, timer.StatusActive, noFires).Timer.ActiveEpoch)

	// Items about one timer in one call are applied one by one.
	out, err := s.st().SetStatus(t.Context(), []store.StatusChange{
		{App: "app", ID: tm.ID, Status: timer.StatusInactive},
		{App: "app", ID: tm.ID, Status: timer.StatusActive},
		{App: "app", ID: tm.ID, Status: timer.StatusActive},
	}, noFires)
	require.NoError(t, err)
	require.Positive(t, out[0].Seq)
	require.Greater(t, out[1].Seq, out[0].Seq)
	require.Zero(t, out[2].Seq)
	require.EqualValues(t, 3, out[2].Timer.ActiveEpoch)

	require.Positive(t, s.setStatus(tm, timer.StatusDeleted, noFires).Seq)
	require.Zero(t, s.setStatus(tm, timer.StatusDeleted, noFires).Seq)
	dead, err := s.st().
		SetStatus(t.Context(), []store.StatusChange{{App: "app", ID: tm.ID, Status: timer.StatusActive}}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeNotFound, dead[0].Err)
}

func concurrentActivations(t *testing.T, s *setup) {
	due := s.nowMS() + 5*timer.MinuteMS
	var items []store.StatusChange
	for range 10 {
		tm := s.create(s.newTimer(), noFires).Timer
		items = append(items, store.StatusChange{App: "app", ID: tm.ID, Status: timer.StatusActive})
	}
	var changed, fires atomic.Int64
	s.together(12, func(ctx context.Context, _ int, st store.Store) error {
		out, err := st.SetStatus(ctx, items, planAt(0, due))
		for _, c := range out {
			if c.Seq > 0 {
				changed.Add(1)
			}
			fires.Add(int64(len(c.Fires)))
		}
		return err
	})
	require.EqualValues(t, len(items), changed.Load())
	require.EqualValues(t, len(items), fires.Load())
	require.Len(t, s.slice(due), len(items))
	for _, it := range items {
		tm, err := s.st().Timer(t.Context(), "app", it.ID)
		require.NoError(t, err)
		require.EqualValues(t, 1, tm.ActiveEpoch)
	}
}

func changesAreLogged(t *testing.T, s *setup) {
	before, err := s.st().LastChange(t.Context())
	require.NoError(t, err)
	a, b := s.create(s.newTimer(), noFires).Timer, s.create(s.newTimer(), noFires).Timer
	seqs := []int64{
		s.setStatus(
			a,
			timer.StatusActive,
			noFires,
		).Seq,
		s.setStatus(b, timer.StatusActive, noFires).Seq,
		s.setStatus(a, timer.StatusDeleted, noFires).Seq,
	}
	changes, err := s.st().Changes(t.Context(), before, 10)
	require.NoError(t, err)
	require.Len(t, changes, 3)
	for i, c := range changes {
		require.Equal(t, seqs[i], c.Seq)
		require.InDelta(t, s.nowMS(), c.AtMS, 10_000)
		require.Equal(t, "app", c.State.App)
	}
	require.Equal(t, a.ID, changes[0].State.ID)
	require.Equal(t, timer.StatusDeleted, changes[0].State.Status, "the state is the present one")
	require.Equal(t, timer.StatusActive, changes[1].State.Status)
	require.EqualValues(t, 1, changes[1].State.ActiveEpoch)
	some, err := s.st().Changes(t.Context(), before, 2)
	require.NoError(t, err)
	require.Equal(t, changes[:2], some)
	rest, err := s.st().Changes(t.Context(), seqs[1], 10)
	require.NoError(t, err)
	require.Equal(t, changes[2:], rest)
	last, err := s.st().LastChange(t.Context())
	require.NoError(t, err)
	require.Equal(t, seqs[2], last)
}

func concurrentChanges(t *testing.T, s *setup) {
	const callers, rounds = 8, 5
	var timers []timer.Timer
	for range callers {
		timers = append(timers, s.create(s.newTimer(), noFires).Timer)
	}
	seqs := make([][]int64, callers)
	s.together(callers, func(ctx context.Context, i int, st store.Store) error {
		for r := range rounds {
			status := []timer.Status{timer.StatusActive, timer.StatusInactive}[r%2]
			out, err := st.SetStatus(
				ctx,
				[]store.StatusChange{{App: "app", ID: timers[i].ID, Status: status}},
				noFires,
			)
			if err != nil {
				return err
			}
			seqs[i] = append(seqs[i], out[0].Seq)
		}
		return nil
	})
	changes, err := s.st().Changes(t.Context(), 0, 1000)
	require.NoError(t, err)
	require.Len(t, changes, callers*rounds)
	of := map[int64]timer.ID{}
	for _, c := range changes {
		of[c.Seq] = c.State.ID
	}
	for i, list := range seqs {
		for _, seq := range list {
			require.Equal(
				t,
				timers[i].ID,
				of[seq],
				"each change was answered with the sequence it has in the log",
			)
		}
	}
}

func readTimers(t *testing.T, s *setup) {
	var made []timer.Timer
	for range 5 {
		made = append(made, s.create(s.newTimer(), noFires).Timer)
	}
	other := s.create(
		store.NewTimer{App: "other", Name: "x", Definition: definition("http://a")}, noFires,
	).Timer
	got, err := s.st().Timer(t.Context(), "app", made[2].ID)
	require.NoError(t, err)
	require.Equal(t, made[2], got)
	require.Equal(t, definition("http://a"), got.Definition)
	for _, app := range []string{"other", "unknown"} {
		_, err = s.st().Timer(t.Context(), app, made[2].ID)
		requireCode(t, timer.CodeNotFound, err)
	}

	made[1] = s.setStatus(made[1], timer.StatusActive, noFires).Timer
	gone := s.setStatus(made[4], timer.StatusDeleted, noFires).Timer
	list := func(q store.Query) []timer.Timer {
		t.Helper()
		q.App = "app"
		out, err := s.st().List(t.Context(), q)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, made[:4], list(store.Query{Limit: 10}))
	require.Equal(t, made[:2], list(store.Query{Limit: 2}))
	require.Equal(t, made[2:4], list(store.Query{Limit: 2, After: made[1].ID}))
	require.Equal(t, made[1:2], list(store.Query{Limit: 2, Status: timer.StatusActive}))
	require.Len(t, list(store.Query{Limit: 9, Status: timer.StatusInactive}), 3)
	require.Len(t, list(store.Query{Limit: 9, Status: timer.StatusDeleted}), 1)
	none, err := s.st().List(t.Context(), store.Query{App: "unknown", Limit: 10})
	require.NoError(t, err)
	require.Empty(t, none)

	states, err := s.st().States(t.Context(), []timer.ID{made[1].ID, made[4].ID, 12345})
	require.NoError(t, err)
	require.ElementsMatch(t, []timer.State{
		{
			ID:            made[1].ID,
			App:           "app",
			AppID:         made[1].AppID,
			Name:          made[1].Name,
			Status:        timer.StatusActive,
			Version:       1,
			ActiveEpoch:   1,
			ActiveSinceMS: made[1].ActiveSinceMS,
			AnchorMS:      made[1].AnchorMS,
			VersionMS:     made[1].CreatedMS,
		},
		{
			ID:              made[4].ID,
			App:             "app",
			AppID:           made[4].AppID,
			Name:            made[4].Name,
			Status:          timer.StatusDeleted,
			Version:         1,
			AnchorMS:        made[4].AnchorMS,
			VersionMS:       made[4].CreatedMS,
			InactiveSinceMS: gone.InactiveSinceMS,
		},
	}, states)
	all, err := s.st().StatesAfter(t.Context(), made[2].ID, 10)
	require.NoError(t, err)
	require.Equal(t, []timer.ID{made[3].ID, made[4].ID, other.ID}, idsOf(all))
	first, err := s.st().StatesAfter(t.Context(), 0, 2)
	require.NoError(t, err)
	require.Equal(t, []timer.ID{made[0].ID, made[1].ID}, idsOf(first))
	key := store.VersionKey{Timer: made[0].ID, Version: 1}
	defs, err := s.st().
		Definitions(t.Context(), []store.VersionKey{key, {Timer: made[0].ID, Version: 2}})
	require.NoError(t, err)
	d := definition("http://a")
	require.Equal(t, map[store.VersionKey]*timer.Definition{key: &d}, defs)
}

func idsOf(states []timer.State) (ids []timer.ID) {
	for _, state := range states {
		ids = append(ids, state.ID)
	}
	return ids
}
