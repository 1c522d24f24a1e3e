package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// everyMinute plans n minutes of a backfill at once.
func everyMinute(n int64) store.BackfillPlanner {
	return func(t *timer.Timer, b *store.Backfill, nowMS int64) (fires []timer.Fire, nextMS int64, err error) {
		for nextMS = b.NextMS; nextMS < b.ToMS && nextMS < b.NextMS+n*timer.MinuteMS; nextMS += timer.MinuteMS {
			fires = append(fires, timer.Fire{
				FireID: timer.FireID{
					Timer:  t.ID,
					DueMS:  nextMS,
					Series: int64(b.ID),
				},
				RunAtMS: nowMS,
				Cause:   timer.CauseBackfill,
			})
		}
		return fires, nextMS, nil
	}
}

func (s *setup) backfill(tm timer.Timer, minutes int64) store.Backfill {
	s.t.Helper()
	from := s.nowMS() - 24*time.Hour.Milliseconds()
	b, err := s.st().StartBackfill(s.t.Context(), store.Backfill{
		ID:     s.ids.Next(),
		App:    "app",
		Timer:  tm.ID,
		FromMS: from,
		ToMS:   from + minutes*timer.MinuteMS,
	})
	require.NoError(s.t, err)
	return b
}

// expandBackfills expands until no backfill is due for expansion.
func (s *setup) expandBackfills(plan store.BackfillPlanner) (fires []timer.Fire) {
	s.t.Helper()
	for {
		more, n, err := s.st().ExpandBackfills(s.t.Context(), 10, plan)
		require.NoError(s.t, err)
		fires = append(fires, more...)
		if n == 0 {
			return fires
		}
	}
}

func backfillsEnd(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	b := s.backfill(tm, 10)
	require.Equal(t, store.BackfillRunning, b.Status)
	require.Equal(t, b.FromMS, b.NextMS)
	require.InDelta(t, s.nowMS(), b.CreatedMS, 10_000)
	fires, n, err := s.st().ExpandBackfills(ctx, 10, everyMinute(4))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, fires, 4)
	again, err := s.st().
		StartBackfill(ctx, store.Backfill{ID: b.ID, App: "app", Timer: tm.ID, FromMS: b.FromMS, ToMS: b.ToMS})
	require.NoError(t, err)
	require.Equal(t, b.FromMS+4*timer.MinuteMS, again.NextMS, "repeated, it changes nothing")
	require.EqualValues(t, 4, again.FiresCreated)
	fires = append(fires, s.expandBackfills(everyMinute(4))...)
	require.Len(t, fires, 10)
	for i, f := range fires {
		require.Equal(t, b.FromMS+int64(i)*timer.MinuteMS, f.DueMS)
		require.EqualValues(t, b.ID, f.Series)
		require.Equal(t, tm.AppID, f.AppID)
		require.EqualValues(t, 1, f.Version)
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.Equal(t, f, *rec.Open)
	}
	got, err := s.st().Backfill(ctx, "app", b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillDone, got.Status)
	require.EqualValues(t, 10, got.FiresCreated)
	session := s.session()
	for _, f := range s.claim(session, fires) {
		_, _, err := s.st().Record(ctx, session, []timer.Outcome{delivered(f, s.nowMS())}, nil)
		require.NoError(t, err)
	}
	cancelled, err := s.st().CancelBackfill(ctx, "app", b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillDone, cancelled.Status, "nothing is open")

	for _, app := range []string{"other", "unknown"} {
		_, err = s.st().Backfill(ctx, app, b.ID)
		requireCode(t, timer.CodeNotFound, err)
		_, err = s.st().CancelBackfill(ctx, app, b.ID)
		requireCode(t, timer.CodeNotFound, err)
		_, err = s.st().
			StartBackfill(ctx, store.Backfill{ID: s.ids.Next(), App: app, Timer: tm.ID, FromMS: 1, ToMS: 2})
		requireCode(t, timer.CodeNotFound, err)
	}

	// A backfill whose plan fails stops no other. One whose timer is deleted, or is a fixed delay by
	// then, ends.
	bad, good := s.backfill(tm, 3), s.backfill(tm, 3)
	gone := s.create(s.newTimer(), noFires).Timer
	orphan := s.backfill(gone, 3)
	s.setStatus(gone, timer.StatusDeleted, noFires)
	chain := s.create(s.newTimer(), noFires).Timer
	useless := s.backfill(chain, 3)
	chain.Definition.Schedule = timer.Schedule{
		Kind: timer.KindFixedDelay, Every: timer.Duration(time.Hour),
	}
	s.edit(chain, chain.Definition, noFires)
	fires = s.expandBackfills(
		func(t *timer.Timer, b *store.Backfill, nowMS int64) ([]timer.Fire, int64, error) {
			if b.ID == bad.ID {
				return nil, 0, errors.New("no such zone")
			}
			return everyMinute(2)(t, b, nowMS)
		},
	)
	require.Len(t, fires, 3)
	for _, f := range fires {
		require.EqualValues(t, good.ID, f.Series)
	}
	for _, id := range []timer.ID{orphan.ID, useless.ID} {
		got, err = s.st().Backfill(ctx, "app", id)
		require.NoError(t, err)
		require.Equal(t, store.BackfillCancelled, got.Status)
	}
}

func backfillsAreCancelled(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	b, other := s.backfill(tm, 1200), s.backfill(tm, 5)
	fires := s.expandBackfills(
		func(t *timer.Timer, x *store.Backfill, nowMS int64) ([]timer.Fire, int64, error) {
			if x.ID == b.ID && x.NextMS >= b.FromMS+1100*timer.MinuteMS {
				return nil, 0, errors.New("stop here")
			}
			return everyMinute(550)(t, x, nowMS)
		},
	)
	require.Len(t, fires, 1105)
	session := s.session()
	var mine []timer.Fire
	for _, f := range fires {
		if f.Series == int64(b.ID) && len(mine) < 3 {
			mine = append(mine, f)
		}
	}
	held := s.claim(session, mine)
	for range 2 {
		got, err := s.st().CancelBackfill(ctx, "app", b.ID)
		require.NoError(t, err)
		require.Equal(t, store.BackfillCancelled, got.Status)
	}
	for i, f := range fires {
		if i%97 > 3 {
			continue
		}
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		switch {
		case f.Series == int64(other.ID),
			f.FireID == held[0].FireID,
			f.FireID == held[1].FireID,
			f.FireID == held[2].FireID:
			require.NotNil(t, rec.Open)
		default:
			require.NotNil(t, rec.Outcome)
			require.Equal(t, timer.Skipped, rec.Outcome.Kind)
			require.Equal(t, timer.ReasonCancelled, rec.Outcome.Reason)
			require.EqualValues(t, 1, rec.Outcome.Count)
		}
	}
	// After their release, a repeated call finishes them.
	released, err := s.st().Release(ctx, session, held, nil)
	require.NoError(t, err)
	require.Len(t, released, 3)
	_, err = s.st().CancelBackfill(ctx, "app", b.ID)
	require.NoError(t, err)
	for _, f := range held {
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.NotNil(t, rec.Outcome)
	}
	require.Empty(t, s.expandBackfills(everyMinute(10)))
}

// doneBackfillsAreCancelled cancels backfills that have created all their fires.
func doneBackfillsAreCancelled(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	session := s.session()
	b, held := s.backfill(tm, 5), s.backfill(tm, 1)
	fires := map[int64][]timer.Fire{}
	for _, f := range s.expandBackfills(everyMinute(10)) {
		fires[f.Series] = append(fires[f.Series], f)
	}
	mine := s.claim(session, fires[int64(b.ID)][:2])
	s.record(session, delivered(mine[0], s.nowMS()))
	for range 2 {
		got, err := s.st().CancelBackfill(ctx, "app", b.ID)
		require.NoError(t, err)
		require.Equal(t, store.BackfillCancelled, got.Status)
		require.EqualValues(t, 5, got.FiresCreated)
	}
	for i, f := range fires[int64(b.ID)] {
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		switch i {
		case 0:
			require.Equal(t, timer.Delivered, rec.Outcome.Kind)
		case 1:
			require.NotNil(t, rec.Open, "the session owns it")
		default:
			require.Equal(t, timer.ReasonCancelled, rec.Outcome.Reason)
		}
	}

	// A backfill whose open fires are all claimed is cancelled, too.
	s.claim(session, fires[int64(held.ID)])
	got, err := s.st().CancelBackfill(ctx, "app", held.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillCancelled, got.Status)
}

// acquireSlots requests the slot for fires that the session owns, in their order.
func (s *setup) acquireSlots(
	session timer.ID,
	fires []timer.Fire,
	c timer.Concurrency,
) (turns []store.SlotVerdict) {
	s.t.Helper()
	requests := make([]store.SlotRequest, len(fires))
	for i, f := range fires {
		f.RunAtMS, f.Bucket = s.nowMS()+5*timer.MinuteMS, 0
		requests[i] = store.SlotRequest{Fire: f, Concurrency: c}
	}
	out, err := s.st().AcquireSlots(s.t.Context(), session, requests)
	require.NoError(s.t, err)
	for _, e := range out {
		turns = append(turns, e.SlotVerdict)
	}
	return turns
}

func backfillsAreCancelledInQueues(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll, MaxQueue: timer.MaxMaxQueue}
	session := s.session()
	added := func(series int64) timer.Fire {
		t.Helper()
		now := s.nowMS()
		fires, err := s.st().AddFires(ctx, "app", tm.ID, []timer.Fire{
			{
				FireID: timer.FireID{
					Timer:  tm.ID,
					DueMS:  now,
					Series: series,
				},
				RunAtMS: now,
				Cause:   timer.CauseRunNow,
			},
		})
		require.NoError(t, err)
		return s.claim(session, fires)[0]
	}
	begin := func(n int64) (store.Backfill, []timer.Fire) {
		t.Helper()
		b := s.backfill(tm, n+1)
		fires, _, err := s.st().ExpandBackfills(ctx, 1, everyMinute(n))
		require.NoError(t, err)
		return b, s.claim(session, fires)
	}
	b, fires := begin(store.MaxBatch + 100)
	other := added(7)
	turns := s.acquireSlots(session, append(fires, other), queue)
	require.Equal(t, store.SlotGranted, turns[0])
	for _, turn := range turns[1:] {
		require.Equal(t, store.SlotQueued, turn)
	}
	_, err := s.st().CancelBackfill(ctx, "app", b.ID)
	require.NoError(t, err)
	require.Equal(
		t,
		[]timer.FireID{other.FireID},
		ids(s.openOf(tm.ID)),
		"and the one that a session owns",
	)
	_, made := s.finish(session, fires[0])
	require.Equal(t, []timer.FireID{other.FireID}, ids(made), "the first that is open")
	s.finish(session, s.claim(session, made)[0])

	// An unowned fire with the slot is finished, too. The slot goes on, but not to a fire of this
	// backfill.
	b, fires = begin(3)
	other = added(8)
	require.Equal(
		t,
		[]store.SlotVerdict{
			store.SlotGranted,
			store.SlotQueued,
			store.SlotQueued,
			store.SlotQueued,
		},
		s.acquireSlots(session, append(fires, other), queue),
	)
	retry := fires[0]
	retry.State, retry.Attempt = timer.FireRetrying, 1
	released, err := s.st().Release(ctx, session, []timer.Fire{retry}, nil)
	require.NoError(t, err)
	require.Len(t, released, 1)
	_, err = s.st().CancelBackfill(ctx, "app", b.ID)
	require.NoError(t, err)
	require.Equal(t, other.FireID, s.running(tm.ID))
	open := s.openOf(tm.ID)
	require.Equal(t, []timer.FireID{other.FireID}, ids(open))
	require.Equal(t, timer.FireReady, open[0].State)
	require.InDelta(t, s.nowMS(), open[0].RunAtMS, 10_000)
}

func concurrentBackfills(t *testing.T, s *setup) {
	const backfills, minutes = 6, 40
	tm := s.create(s.newTimer(), noFires).Timer
	for range backfills {
		s.backfill(tm, minutes)
	}
	var mu sync.Mutex
	seen := map[timer.FireID]int{}
	count := func(fires []timer.Fire) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range fires {
			seen[f.FireID]++
		}
	}
	s.together(6, func(ctx context.Context, _ int, st store.Store) error {
		for {
			fires, n, err := st.ExpandBackfills(ctx, 2, everyMinute(7))
			if err != nil || n == 0 {
				return err
			}
			count(fires)
		}
	})
	count(s.expandBackfills(everyMinute(7)))
	require.Len(t, seen, backfills*minutes)
	for id, n := range seen {
		require.Equal(t, 1, n, "%v", id)
	}
}

// BackfillsEndAtTheirBound checks that a backfill creates no more fires than a range may have when it is
// requested, although an edit gives the range more. almost creates all but three of these.
func BackfillsEndAtTheirBound(t *testing.T, env Env, almost func(b store.Backfill)) {
	t.Helper()
	s := newSetup(t, env)
	b := s.backfill(s.create(s.newTimer(), noFires).Timer, 1000)
	almost(b)
	fires := s.expandBackfills(everyMinute(2))
	require.Len(t, fires, 4)
	ended, err := s.st().Backfill(t.Context(), "app", b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillDone, ended.Status)
	require.EqualValues(t, store.MaxBackfillFires+1, ended.FiresCreated, "the last plan is whole")
	require.Greater(t, ended.NextMS, fires[3].DueMS)
	require.Less(t, ended.NextMS, ended.ToMS)
}
