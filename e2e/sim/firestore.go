package sim

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (s *gatedStore) LoadSlice(
	ctx context.Context,
	minute int64,
	bucket int32,
	behind store.Position,
	untilMS int64,
	limit int,
) ([]timer.Fire, error) {
	return gatedCall(s, ctx, "LoadSlice", false, func(ctx context.Context) ([]timer.Fire, error) {
		return s.Store.LoadSlice(ctx, minute, bucket, behind, untilMS, limit)
	})
}

func (s *gatedStore) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	return gatedCall(s, ctx, "Claim", true, func(ctx context.Context) ([]timer.Fire, error) {
		won, err := s.Store.Claim(ctx, session, fires)
		for i := range won {
			s.p.env.log.printf("%s claims %s rev %d", s.p, won[i].FireID, won[i].Rev)
		}
		return won, err
	})
}

func (s *gatedStore) Release(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
	attempts []timer.Attempt,
) ([]timer.Fire, error) {
	s.p.env.recorder.markDeferred(fires)
	return gatedCall(s, ctx, "Release", true, func(ctx context.Context) ([]timer.Fire, error) {
		out, err := s.Store.Release(ctx, session, fires, attempts)
		if err == nil {
			for i := range out {
				s.p.env.log.printf(
					"%s releases %s to rev %d, run %s",
					s.p,
					out[i].FireID,
					out[i].Rev,
					stamp(out[i].RunAtMS),
				)
				s.p.env.recorder.markRecorded(s.p, out[i].FireID, out[i].Attempt)
				if out[i].State == timer.FireDeferred {
					s.p.env.deferrals.Add(1)
				}
			}
		}
		return out, err
	})
}

func (s *gatedStore) RecordAttempts(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
	attempts []timer.Attempt,
) ([]timer.FireID, error) {
	return gatedCall(
		s,
		ctx,
		"RecordAttempts",
		true,
		func(ctx context.Context) ([]timer.FireID, error) {
			lost, err := s.Store.RecordAttempts(ctx, session, fires, attempts)
			if err == nil {
				gone := setOf(lost)
				for i := range fires {
					if !gone[fires[i].FireID] {
						s.p.env.recorder.markRecorded(s.p, fires[i].FireID, fires[i].Attempt)
					}
				}
			}
			return lost, err
		},
	)
}

func (s *gatedStore) Record(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, successors []timer.Fire, err error) {
	lost, err = gatedCall(
		s,
		ctx,
		"Record",
		true,
		func(ctx context.Context) (lost []timer.FireID, err error) {
			lost, successors, err = s.Store.Record(ctx, session, outcomes, attempts)
			if err == nil {
				gone := setOf(lost)
				for i := range outcomes {
					o := &outcomes[i]
					if gone[o.FireID] {
						s.p.env.log.printf(
							"%s records %s of %s without effect",
							s.p,
							o.Kind,
							o.FireID,
						)
						continue
					}
					s.p.env.log.printf("%s records %s: %s %s", s.p, o.FireID, o.Kind, o.Reason)
					s.p.env.recorder.markRecorded(s.p, o.FireID, o.Attempts)
				}
			}
			return lost, err
		},
	)
	if err != nil {
		return nil, nil, err
	}
	return lost, successors, nil
}

func (s *gatedStore) Begin(ctx context.Context, session timer.ID, fires []timer.Fire) error {
	_, err := gatedCall(s, ctx, "Begin", true, func(ctx context.Context) (noResult, error) {
		return noResult{}, s.Store.Begin(ctx, session, fires)
	})
	return err
}

func (s *gatedStore) OpenAmong(ctx context.Context, ids []timer.FireID) ([]timer.Fire, error) {
	return gatedCall(
		s,
		ctx,
		"OpenAmong",
		false,
		func(ctx context.Context) ([]timer.Fire, error) { return s.Store.OpenAmong(ctx, ids) },
	)
}

func (s *gatedStore) Overdue(ctx context.Context, q store.OverdueQuery) ([]timer.Fire, error) {
	return gatedCall(s, ctx, "Overdue", true, func(ctx context.Context) ([]timer.Fire, error) {
		out, err := s.Store.Overdue(ctx, q)
		for i := range out {
			s.p.env.log.printf(
				"%s finds overdue %s rev %d owner %d",
				s.p,
				out[i].FireID,
				out[i].Rev,
				out[i].Owner,
			)
		}
		return out, err
	})
}

func (s *gatedStore) Owned(
	ctx context.Context,
	sessions []timer.ID,
	untilMS int64,
	limit int,
) ([]timer.Fire, error) {
	return gatedCall(s, ctx, "Owned", false, func(ctx context.Context) ([]timer.Fire, error) {
		return s.Store.Owned(ctx, sessions, untilMS, limit)
	})
}

func (s *gatedStore) OpenFires(
	ctx context.Context,
	app string,
	id timer.ID,
	q store.OpenFiresQuery,
) (store.OpenFiresPage, error) {
	return gatedCall(
		s,
		ctx,
		"OpenFires",
		false,
		func(ctx context.Context) (store.OpenFiresPage, error) {
			return s.Store.OpenFires(ctx, app, id, q)
		},
	)
}

func (s *gatedStore) OldestOpen(ctx context.Context) (int64, error) {
	return gatedCall(s, ctx, "OldestOpen", false, s.Store.OldestOpen)
}

func (s *gatedStore) OpenSession(
	ctx context.Context,
	id timer.ID,
	kind store.SessionKind,
	name string,
) error {
	_, err := gatedCall(s, ctx, "OpenSession", true, func(ctx context.Context) (noResult, error) {
		err := s.Store.OpenSession(ctx, id, kind, name)
		if err == nil {
			s.p.env.observer.opened(s.p, id)
		}
		return noResult{}, err
	})
	return err
}

func (s *gatedStore) RenewSession(ctx context.Context, id timer.ID, load store.Load) (bool, error) {
	return gatedCall(s, ctx, "RenewSession", true, func(ctx context.Context) (bool, error) {
		alive, err := s.Store.RenewSession(ctx, id, load)
		if err == nil && alive {
			s.p.env.observer.renewed(id)
		}
		return alive, err
	})
}

func (s *gatedStore) LiveSessions(ctx context.Context) ([]store.Session, error) {
	return gatedCall(s, ctx, "LiveSessions", false, s.Store.LiveSessions)
}

func (s *gatedStore) ExpiredSessions(
	ctx context.Context,
	within time.Duration,
) ([]store.Session, error) {
	return gatedCall(
		s,
		ctx,
		"ExpiredSessions",
		false,
		func(ctx context.Context) ([]store.Session, error) { return s.Store.ExpiredSessions(ctx, within) },
	)
}

func (s *gatedStore) ExpireSession(ctx context.Context, id timer.ID, renewals int64) (bool, error) {
	return gatedCall(s, ctx, "ExpireSession", true, func(ctx context.Context) (bool, error) {
		ended, err := s.Store.ExpireSession(ctx, id, renewals)
		if err == nil && ended {
			s.p.env.observer.ended(s.p, id)
		}
		return ended, err
	})
}

func (s *gatedStore) CloseSession(ctx context.Context, id timer.ID) error {
	_, err := gatedCall(s, ctx, "CloseSession", true, func(ctx context.Context) (noResult, error) {
		err := s.Store.CloseSession(ctx, id)
		if err == nil {
			s.p.env.observer.closed(id)
		}
		return noResult{}, err
	})
	return err
}

func (s *gatedStore) PurgeExpired(ctx context.Context, retention time.Duration) error {
	_, err := gatedCall(
		s,
		ctx,
		"PurgeExpired",
		true,
		func(ctx context.Context) (noResult, error) { return noResult{}, s.Store.PurgeExpired(ctx, retention) },
	)
	return err
}

// Now returns the simulated time. It skips the gates to save their time.
func (s *gatedStore) Now(ctx context.Context) (time.Time, error) {
	return gatedCall(
		s,
		ctx,
		"Now",
		false,
		func(context.Context) (time.Time, error) { return time.Now().Truncate(time.Millisecond), nil },
	)
}

func setOf(ids []timer.FireID) map[timer.FireID]bool {
	set := make(map[timer.FireID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
