package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxEventAge  = time.Hour
	maxClockSkew = time.Minute // between a session's clock and the store's
)

// eventPosition is the position up to which a session's outcomes are published.
type eventPosition struct {
	at  store.OutcomePosition
	all bool
}

func place(p store.OutcomePosition) timer.Outcome {
	return timer.Outcome{Fire: timer.Fire{FireID: p.FireID}, FinishedMS: p.FinishedMS}
}

// PendingEvents returns the outcomes of a session after a position.
func (s *Store) PendingEvents(
	_ context.Context,
	session timer.ID,
	after store.OutcomePosition,
	untilMS int64,
	limit int,
) (out []timer.Outcome, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	if session == store.SystemSession {
		untilMS = min(untilMS, nowMS-store.VisibilityDelay.Milliseconds()+1)
	}
	for _, o := range s.bySession[session] {
		if o.FinishedMS >= nowMS-maxEventAge.Milliseconds() && o.FinishedMS < untilMS &&
			byFinish(o, place(after)) > 0 {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, byFinish)
	return out[:min(len(out), limit)], nil
}

func (s *Store) announcedOf(session timer.ID) *eventPosition {
	a := s.eventPosition[session]
	if a == nil {
		a = &eventPosition{}
		s.eventPosition[session] = a
	}
	return a
}

// AckEvents moves a position forward, or back from the future.
func (s *Store) AckEvents(_ context.Context, session timer.ID, p store.OutcomePosition) error {
	defer s.lock()()
	if a := s.announcedOf(session); byFinish(place(p), place(a.at)) > 0 ||
		s.isAhead(session, a.at) {
		a.at = p
	}
	return nil
}

// isAhead reports whether a clock that was ahead has set the position of SystemSession.
func (s *Store) isAhead(session timer.ID, at store.OutcomePosition) bool {
	return session == store.SystemSession && at.FinishedMS > s.nowMS()
}

// SessionsWithPendingEvents returns the sessions that ended recently.
func (s *Store) SessionsWithPendingEvents(
	context.Context,
) (map[timer.ID]store.OutcomePosition, error) {
	defer s.lock()()
	nowMS := s.nowMS()
	since := nowMS - maxEventAge.Milliseconds()
	out := map[timer.ID]store.OutcomePosition{store.SystemSession: {}}
	if at := s.announcedOf(store.SystemSession).at; !s.isAhead(store.SystemSession, at) {
		out[store.SystemSession] = at
	}
	for id, x := range s.sessions {
		if x.Kind != store.ExecutorSession || x.endedMS <= since || s.announcedOf(id).all {
			continue
		}
		out[id] = s.announcedOf(id).at
		begin := x.openedMS - maxClockSkew.Milliseconds()
		if out[id].FinishedMS < begin && x.openedMS <= nowMS {
			out[id] = store.OutcomePosition{FinishedMS: begin}
		}
	}
	return out, nil
}

// FinishEvents takes a session off the list.
func (s *Store) FinishEvents(_ context.Context, session timer.ID) error {
	defer s.lock()()
	if x := s.sessions[session]; x != nil && x.endedMS > 0 {
		s.announcedOf(session).all = true
	}
	return nil
}
