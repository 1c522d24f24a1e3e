package fires

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sessions"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Claim is on the hot path. It sends one autocommitted UPDATE by primary key for each revision in
// the batch, nearly always one. If all rows matched, the session won all fires: they had no owner
// and the given revision, so the rows are as given. Only fires with an earlier attempt are read
// again, for what tasks do not carry. If fewer rows matched, all of them are read again.
//
// Two claims at once update row by row in order of the key. The second to reach a row finds an
// owner and does not match it. After a lost answer, the repeated call does not match its own rows,
// reads them and finds its session there.
func (s *Fires) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) (won []timer.Fire, err error) {
	fires = slices.Clone(fires)
	slices.SortFunc(fires, func(a, b timer.Fire) int {
		return cmp.Or(cmp.Compare(a.Rev, b.Rev), timer.CompareFires(a, b))
	})
	for len(fires) > 0 {
		n := 1
		for n < len(fires) && fires[n].Rev == fires[0].Rev {
			n++
		}
		for part := range sqldb.Batches(slices.CompactFunc(fires[:n:n], sameFire)) {
			w, err := s.claimBatch(ctx, session, part)
			if err != nil {
				return nil, err
			}
			won = append(won, w...)
		}
		fires = fires[n:]
	}
	return won, nil
}

func sameFire(a, b timer.Fire) bool { return a.FireID == b.FireID }

// claimBatch claims fires of one revision. They are sorted and distinct.
func (s *Fires) claimBatch(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	ids := sqldb.IDsOf(fires)
	n, err := s.db.Autocommit(ctx, "claiming fires", func() *sqldb.Statement {
		return s.takeOver(session, 0, fires[0].Rev, ids)
	})
	if err != nil {
		return nil, err
	}
	if int(n) == len(fires) {
		for i := range fires {
			fires[i].Owner = session
		}
		return s.refreshTargetBits(ctx, session, fires)
	}
	return s.claimSlowly(ctx, session, fires[0].Rev, ids)
}

// refreshTargetBits reads those of the won fires that had an attempt before, since only the row
// tells which targets have taken a fire. First attempts, which are nearly all, cost no read. A fire
// that was completed after the claim is no longer the session's, and is left out.
func (s *Fires) refreshTargetBits(
	ctx context.Context,
	session timer.ID,
	won []timer.Fire,
) ([]timer.Fire, error) {
	var ids []timer.FireID
	for i := range won {
		if won[i].Attempt > 0 {
			ids = append(ids, won[i].FireID)
		}
	}
	if len(ids) == 0 {
		return won, nil
	}
	rows, err := s.readFires(ctx, ids)
	if err != nil {
		return nil, err // the claim stands, and a repeated call finds it
	}
	now := make(map[timer.FireID]timer.Fire, len(rows))
	for _, f := range rows {
		now[f.FireID] = f
	}
	out := won[:0]
	for _, f := range won {
		if f.Attempt > 0 {
			if f = now[f.FireID]; f.Owner != session {
				continue
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// takeOver claims fires that have the given owner; 0 is no owner.
func (s *Fires) takeOver(session, from timer.ID, rev int32, ids []timer.FireID) *sqldb.Statement {
	q := sqldb.Stmt("UPDATE fires"+s.db.Dialect.ByPrimary+" SET owner=").
		Int(int64(session)).
		Add(" WHERE ").
		Fires(s.db.Dialect, ids).
		Add(" AND owner=").
		Int(int64(from)).
		Add(" AND revision=").
		Int(int64(rev)).
		Add(" AND ")
	return sessions.WhileLive(q, session)
}

// claimSlowly handles a batch in which some fires were not free. They may be finished, owned by
// others, or owned by this session already. It takes over fires of expired sessions, on the
// condition that they still have that owner.
func (s *Fires) claimSlowly(
	ctx context.Context,
	session timer.ID,
	rev int32,
	ids []timer.FireID,
) ([]timer.Fire, error) {
	rows, err := s.readFires(ctx, ids)
	if err != nil {
		return nil, err
	}
	var won []timer.Fire
	others := map[timer.ID][]timer.FireID{}
	for _, f := range rows {
		switch {
		case f.Rev != rev, f.Owner == 0:
		case f.Owner == session:
			won = append(won, f)
		default:
			others[f.Owner] = append(others[f.Owner], f.FireID)
		}
	}
	if len(others) == 0 {
		return won, nil
	}
	expired, err := s.expiredAmong(ctx, others)
	if err != nil {
		return nil, err
	}
	for _, owner := range expired {
		n, err := s.db.Autocommit(ctx, "taking over fires", func() *sqldb.Statement {
			return s.takeOver(session, owner, rev, others[owner])
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		rows, err := s.readFires(ctx, others[owner])
		if err != nil {
			return nil, err
		}
		for _, f := range rows {
			if f.Owner == session && f.Rev == rev {
				won = append(won, f)
			}
		}
	}
	return won, nil
}

// OpenAmong reads by primary key, without locks.
func (s *Fires) OpenAmong(ctx context.Context, ids []timer.FireID) (open []timer.Fire, err error) {
	ids = sqldb.SortedIDs(slices.Clone(ids))
	err = s.db.Read(
		ctx,
		"reading open fires",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			open = nil
			for part := range sqldb.Batches(ids) {
				rows, err := s.fires.Open(ctx, c, part, "")
				if err != nil {
					return err
				}
				open = append(open, rows...)
			}
			return nil
		},
	)
	return open, err
}

// readFires returns those of the fires that are open, in any order.
func (s *Fires) readFires(ctx context.Context, ids []timer.FireID) (fires []timer.Fire, err error) {
	err = s.db.Read(ctx, "reading fires", func(ctx context.Context, c sqlx.QueryerContext) error {
		fires, err = s.fires.Open(ctx, c, ids, "")
		return err
	})
	return fires, err
}

// expiredAmong returns the owners that have ended or have no row, for an expired session stays
// expired. The result is sorted, so that two calls take over in the same order.
func (s *Fires) expiredAmong(
	ctx context.Context,
	owners map[timer.ID][]timer.FireID,
) (expired []timer.ID, err error) {
	for id := range owners {
		expired = append(expired, id)
	}
	slices.Sort(expired)
	var live []timer.ID
	err = s.db.Read(
		ctx,
		"reading sessions",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			return s.db.SelectAll(
				ctx,
				c,
				&live,
				sqldb.Stmt("SELECT id FROM sessions WHERE ended_ms=0 AND id").IDList(expired),
			)
		},
	)
	return slices.DeleteFunc(
		expired,
		func(id timer.ID) bool { return slices.Contains(live, id) },
	), err
}
