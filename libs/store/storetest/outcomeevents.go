package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *setup) pendingEvents(
	session timer.ID,
	after store.OutcomePosition,
	limit int,
) []timer.Outcome {
	s.t.Helper()
	out, err := s.st().PendingEvents(s.t.Context(), session, after, timer.NeverMS, limit)
	require.NoError(s.t, err)
	return out
}

func positionOf(o timer.Outcome) store.OutcomePosition {
	return store.OutcomePosition{FinishedMS: o.FinishedMS, FireID: o.FireID}
}

func eventsByPosition(t *testing.T, s *setup) {
	ctx := t.Context()
	session, other := s.session(), s.session()
	now := s.nowMS()
	mine, theirs := s.claim(session, s.fires(5, now)), s.claim(other, s.fires(3, now))
	var outcomes []timer.Outcome
	for i, f := range mine {
		outcomes = append(outcomes, delivered(f, now-int64(i/2)))
	}
	for _, st := range []struct {
		session  timer.ID
		outcomes []timer.Outcome
	}{{session, outcomes[:4]}, {other, []timer.Outcome{delivered(theirs[0], now-1), delivered(theirs[1], now-2)}}} {
		lost, _, err := s.st().Record(ctx, st.session, st.outcomes, nil)
		require.NoError(t, err)
		require.Empty(t, lost)
	}
	// It is too old to be published.
	old := delivered(mine[4], now-2*time.Hour.Milliseconds())
	lost, _ := s.record(session, old)
	require.Empty(t, lost)

	all := s.pendingEvents(session, store.OutcomePosition{}, 100)
	require.Len(t, all, 4)
	for i, o := range all {
		require.Equal(t, session, o.Owner)
		if i > 0 {
			require.LessOrEqual(t, all[i-1].FinishedMS, o.FinishedMS)
		}
	}
	var paged []timer.Outcome
	for at := (store.OutcomePosition{}); ; {
		page := s.pendingEvents(session, at, 3)
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		at = positionOf(page[len(page)-1])
	}
	require.Equal(t, all, paged)
	before, err := s.st().
		PendingEvents(ctx, session, store.OutcomePosition{}, all[3].FinishedMS, 100)
	require.NoError(t, err)
	require.NotEmpty(t, before)
	for _, o := range before {
		require.Less(t, o.FinishedMS, all[3].FinishedMS)
	}
	require.Len(t, s.pendingEvents(other, store.OutcomePosition{}, 100), 2)

	pending := func() map[timer.ID]store.OutcomePosition {
		t.Helper()
		out, err := s.st().SessionsWithPendingEvents(ctx)
		require.NoError(t, err)
		require.Contains(t, out, store.SystemSession)
		return out
	}
	require.NotContains(t, pending(), session, "an alive session publishes its own events")
	require.NoError(t, s.st().FinishEvents(ctx, session))
	s.together(3, func(ctx context.Context, i int, st store.Store) error {
		return st.AckEvents(ctx, session, positionOf(all[[]int{1, 2, 0}[i]]))
	})
	s.expireSession(session)
	require.Equal(
		t,
		positionOf(all[2]),
		pending()[session],
		"it never moves back, and an alive session is not finished",
	)
	require.Equal(t, all[3:], s.pendingEvents(session, pending()[session], 100))
	s.expireSession(other)
	require.Positive(t, pending()[other].FinishedMS, "nothing is older than the session")
	require.Len(t, s.pendingEvents(other, pending()[other], 100), 2)
	watching := s.ids.Next()
	require.NoError(
		t,
		s.st().
			OpenSession(ctx, store.Session{ID: watching, Kind: store.SchedulerSession, Name: "test"}),
	)
	s.expireSession(watching)
	require.NotContains(t, pending(), watching, "it records nothing")
	for range 2 {
		require.NoError(t, s.st().FinishEvents(ctx, session))
	}
	require.NotContains(t, pending(), session)
	require.Contains(t, pending(), other)
	require.NoError(t, s.st().PurgeExpired(ctx, 7*24*time.Hour))
	require.Contains(t, pending(), other)
}

// eventsOfTheSystemSession reads outcomes that the store recorded itself.
func eventsOfTheSystemSession(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	f := s.accepted(session, s.claim(session, s.fires(1, s.nowMS()))[0])
	require.Equal(t, store.CompletionAccepted, s.complete(completed(f)).State)
	require.Empty(
		t,
		s.pendingEvents(store.SystemSession, store.OutcomePosition{}, 10),
		"one that ended before may be committed later",
	)

	at := store.OutcomePosition{FinishedMS: s.nowMS(), FireID: f.FireID}
	for range 2 {
		require.NoError(t, s.st().AckEvents(ctx, store.SystemSession, at))
		require.NoError(
			t,
			s.st().AckEvents(ctx, store.SystemSession, store.OutcomePosition{FinishedMS: 5}),
		)
		require.NoError(t, s.st().FinishEvents(ctx, store.SystemSession))
		require.NoError(t, s.st().PurgeExpired(ctx, 7*24*time.Hour))
		pending, err := s.st().SessionsWithPendingEvents(ctx)
		require.NoError(t, err)
		require.Equal(t, map[timer.ID]store.OutcomePosition{store.SystemSession: at}, pending)
	}
	live, err := s.st().LiveSessions(ctx)
	require.NoError(t, err)
	require.Len(t, live, 1)
	ended, err := s.st().ExpiredSessions(ctx, 24*time.Hour)
	require.NoError(t, err)
	require.Empty(t, ended)

	// These are the other two kinds.
	now := s.nowMS()
	made := s.gridTimer(
		gridDefinition(time.Minute),
		func(*timer.Timer, int64) store.Plan { return store.Plan{NextDueMS: now - 100, ExpandAtMS: now} },
	).Timer
	s.expandDue(func(t *timer.Timer, nowMS int64) store.Plan {
		return store.Plan{
			Skips: []timer.Outcome{
				{
					Fire: timer.Fire{
						FireID:  timer.FireID{Timer: t.ID, DueMS: now - 90},
						RunAtMS: now - 90,
					},
					Reason:  timer.ReasonMisfired,
					UntilMS: now - 80,
					Count:   2,
				},
			},
			NextDueMS: nowMS + 1, ExpandAtMS: nowMS + time.Hour.Milliseconds(),
		}
	})
	history, err := s.st().History(ctx, "app", made.ID, timer.FireID{}, 10)
	require.NoError(t, err)
	require.Equal(t, store.SystemSession, history[0].Owner)
	id := s.ids.Next()
	b := store.Backfill{ID: id, App: "app", Timer: made.ID, FromMS: 1000, ToMS: 3000}
	_, err = s.st().StartBackfill(ctx, b)
	require.NoError(t, err)
	_, _, err = s.st().
		ExpandBackfills(ctx, 10, func(_ *timer.Timer, b *store.Backfill, nowMS int64) ([]timer.Fire, int64, error) {
			return []timer.Fire{
				{
					FireID:  timer.FireID{Timer: made.ID, DueMS: 1000, Series: int64(b.ID)},
					RunAtMS: nowMS,
				},
			}, 2000, nil
		})
	require.NoError(t, err)
	_, err = s.st().CancelBackfill(ctx, "app", id)
	require.NoError(t, err)
	rec, err := s.st().
		Fire(ctx, "app", timer.FireID{Timer: made.ID, DueMS: 1000, Series: int64(id)})
	require.NoError(t, err)
	require.Equal(t, timer.ReasonCancelled, rec.Outcome.Reason)
	require.Equal(t, store.SystemSession, rec.Outcome.Owner)
}

// eventsAfterAClockAhead acknowledges the system's outcomes by a clock that is ahead for a moment.
func eventsAfterAClockAhead(t *testing.T, s *setup) {
	ctx := t.Context()
	ack := func(session timer.ID, atMS int64) store.OutcomePosition {
		t.Helper()
		at := store.OutcomePosition{FinishedMS: atMS}
		require.NoError(t, s.st().AckEvents(ctx, session, at))
		return at
	}
	pending := func(session timer.ID) store.OutcomePosition {
		t.Helper()
		out, err := s.st().SessionsWithPendingEvents(ctx)
		require.NoError(t, err)
		return out[session]
	}
	ahead := s.nowMS() + time.Hour.Milliseconds()
	ack(store.SystemSession, ahead)
	require.Zero(t, pending(store.SystemSession), "what is recorded now is not left out")
	at := ack(store.SystemSession, s.nowMS()-1000)
	require.Equal(t, at, pending(store.SystemSession))
	ack(store.SystemSession, at.FinishedMS-1)
	require.Equal(t, at, pending(store.SystemSession))

	session := s.session()
	at = ack(session, ahead) // its outcomes are later: executors see to that
	ack(session, s.nowMS())
	s.expireSession(session)
	require.Equal(t, at, pending(session))
}

func attemptsOfTargets(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	now := s.nowMS()
	fires := s.claim(session, s.fires(4, now))
	to := func(f timer.Fire, n int32, target string, startMS int64) timer.Attempt {
		a := attempt(f, n, startMS)
		a.Target, a.Failure = target, timer.FailureStatus
		return a
	}
	first := []timer.Attempt{to(fires[0], 1, "web", now), to(fires[0], 1, "2", now+1)}
	lost, err := s.st().RecordAttempts(ctx, session, fires[:1], first)
	require.NoError(t, err)
	require.Empty(t, lost)
	last := []timer.Attempt{
		to(fires[0], 2, "2", now+50),
		to(fires[1], 1, "2", now+2),
		to(fires[1], 1, "web", now+2),
		attempt(fires[2], 1, now),
		to(fires[3], 1, "web", now),
	}
	lost, _, err = s.st().
		Record(ctx, session, []timer.Outcome{delivered(fires[0], now+90), delivered(fires[1], now+90), delivered(fires[2], now+90)}, last)
	require.NoError(t, err)
	require.Empty(t, lost)

	asked := append(ids(fires[:3]), timer.FireID{Timer: 4711, DueMS: now})
	got, err := s.st().TargetAttempts(ctx, asked)
	require.NoError(t, err)
	of := map[timer.FireID][]timer.Attempt{}
	for _, a := range got {
		of[a.FireID] = append(of[a.FireID], a)
	}
	want := map[timer.FireID][]timer.Attempt{
		fires[0].FireID: {first[0], first[1], last[0]},
		fires[1].FireID: {last[1], last[2]},
	}
	for _, as := range want {
		for i := range as {
			as[i].Error, as[i].Excerpt = "", ""
		}
	}
	require.Equal(t, want, of)
	got, err = s.st().TargetAttempts(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, got)
	errs, err := s.st().LastErrors(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, errs)
}
