package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *setup) openSession() map[timer.ID]store.Session {
	s.t.Helper()
	all, err := s.st().LiveSessions(s.t.Context())
	require.NoError(s.t, err)
	out := map[timer.ID]store.Session{}
	for _, l := range all {
		out[l.ID] = l
	}
	return out
}

func expiredStaysExpired(t *testing.T, s *setup) {
	ctx := t.Context()
	id := s.ids.Next()
	const first = 1 << 61
	require.NoError(t, s.st().OpenSession(ctx, store.Session{
		ID: id, Kind: store.SchedulerSession, Name: "host-1", Renewals: first,
	}))
	require.EqualValues(t, first, s.openSession()[id].Renewals)
	requireCode(
		t,
		timer.CodeConflict,
		s.st().OpenSession(ctx, store.Session{ID: id, Kind: store.ExecutorSession, Name: "host-2"}),
	)
	other := s.session()
	for range 2 {
		alive, err := s.st().RenewSession(ctx, id, store.Load{InflightFull: true, OldestTaskMS: 17})
		require.NoError(t, err)
		require.True(t, alive)
	}
	require.Equal(t, store.Session{
		ID:       id,
		Kind:     store.SchedulerSession,
		Name:     "host-1",
		Renewals: first + 2,
		Load:     store.Load{InflightFull: true, OldestTaskMS: 17},
	}, s.openSession()[id])
	require.Len(t, s.openSession(), 2)
	for range 2 {
		require.NoError(t, s.st().CloseSession(ctx, id))
	}
	require.NotContains(t, s.openSession(), id)
	require.Contains(t, s.openSession(), other)
	ended, err := s.st().ExpiredSessions(ctx, time.Hour)
	require.NoError(t, err)
	require.Len(t, ended, 1)
	require.Equal(t, id, ended[0].ID)
	alive, err := s.st().RenewSession(ctx, id, store.Load{})
	require.NoError(t, err)
	require.False(t, alive)
	requireCode(
		t,
		timer.CodeConflict,
		s.st().OpenSession(ctx, store.Session{ID: id, Kind: store.ExecutorSession, Name: "again"}),
	)
	alive, err = s.st().RenewSession(ctx, s.ids.Next(), store.Load{})
	require.NoError(t, err)
	require.False(t, alive)
	require.NoError(t, s.st().CloseSession(ctx, s.ids.Next()))
}

func expiryNeedsTheLatestRenewal(t *testing.T, s *setup) {
	ctx := t.Context()
	id := s.session()
	_, err := s.st().RenewSession(ctx, id, store.Load{})
	require.NoError(t, err)
	ended, err := s.st().ExpireSession(ctx, id, 0)
	require.NoError(t, err)
	require.False(t, ended, "it was renewed since")
	var wins atomic.Int64
	s.together(8, func(ctx context.Context, _ int, st store.Store) error {
		ended, err := st.ExpireSession(ctx, id, 1)
		if ended {
			wins.Add(1)
		}
		return err
	})
	require.EqualValues(t, 1, wins.Load())
	require.NotContains(t, s.openSession(), id)
	ended, err = s.st().ExpireSession(ctx, s.ids.Next(), 0)
	require.NoError(t, err)
	require.False(t, ended)
}

func now(t *testing.T, s *setup) {
	require.NoError(t, s.st().Ping(t.Context()))
	first, err := s.st().Now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), first, time.Minute)
	for _, st := range s.Stores {
		at, err := st.Now(t.Context())
		require.NoError(t, err)
		require.False(t, at.Before(first))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.st().Create(ended, []store.NewTimer{s.newTimer()}, noFires)
	requireCode(t, timer.CodeUnavailable, err)
}
