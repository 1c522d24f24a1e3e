package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

type session struct {
	store.Session

	openedMS int64
	endedMS  int64 // 0: alive
}

// alive reports whether a session is alive. Session 0 is not.
func (s *Store) alive(id timer.ID) bool {
	x := s.sessions[id]
	return x != nil && x.endedMS == 0
}

// OpenSession begins a session.
func (s *Store) OpenSession(_ context.Context, begun store.Session) error {
	defer s.lock()()
	if s.sessions[begun.ID] != nil {
		return timer.Conflict("id", "this session id is taken")
	}
	begun.Load, begun.Ended = store.Load{}, false
	x := &session{Session: begun, openedMS: s.nowMS()}
	s.sessions[begun.ID] = x
	s.live = append(s.live, x)
	slices.SortFunc(s.live, func(a, b *session) int { return int(a.ID - b.ID) })
	return nil
}

// RenewSession counts a renewal if the session is alive.
func (s *Store) RenewSession(_ context.Context, id timer.ID, load store.Load) (bool, error) {
	defer s.lock()()
	if !s.alive(id) {
		return false, nil
	}
	x := s.sessions[id]
	x.Renewals, x.Load = x.Renewals+1, load
	return true, nil
}

// LiveSessions returns the alive sessions of all kinds.
func (s *Store) LiveSessions(context.Context) ([]store.Session, error) {
	defer s.lock()()
	s.live = slices.DeleteFunc(s.live, func(x *session) bool { return x.endedMS != 0 })
	out := make([]store.Session, len(s.live))
	for i, x := range s.live {
		out[i] = x.Session
	}
	return out, nil
}

// ExpiredSessions returns the sessions that ended recently.
func (s *Store) ExpiredSessions(_ context.Context, within time.Duration) ([]store.Session, error) {
	defer s.lock()()
	since := s.nowMS() - within.Milliseconds()
	var out []store.Session
	for _, x := range s.sessions {
		if x.endedMS > 0 && x.endedMS > since {
			one := x.Session
			one.Ended = true
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b store.Session) int { return int(a.ID - b.ID) })
	return out, nil
}

// SessionsByID returns the sessions that are known.
func (s *Store) SessionsByID(_ context.Context, ids []timer.ID) (out []store.Session, err error) {
	defer s.lock()()
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if x := s.sessions[id]; x != nil {
			one := x.Session
			one.Ended = x.endedMS != 0
			out = append(out, one)
		}
	}
	return out, nil
}

// ExpireSession ends a session if it still has this number of renewals.
func (s *Store) ExpireSession(_ context.Context, id timer.ID, renewals int64) (bool, error) {
	defer s.lock()()
	if !s.alive(id) || s.sessions[id].Renewals != renewals {
		return false, nil
	}
	s.sessions[id].endedMS = s.nowMS()
	return true, nil
}

// CloseSession ends the caller's session.
func (s *Store) CloseSession(_ context.Context, id timer.ID) error {
	defer s.lock()()
	if s.alive(id) {
		s.sessions[id].endedMS = s.nowMS()
	}
	return nil
}
