package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Claim is the hot path: for each revision in the batch (nearly always one) a single autocommitted
// UPDATE by primary key. All rows matched: all won, and as owner was none and the revision the
// same, the rows are as given, but for what tasks do not carry of those that had an attempt before.
// Only these, and where fewer matched all, are read back.
//
// Two claims at once: both update row by row in order of the key; whoever comes to a row second
// finds an owner and does not match it. A lost answer: the repeated call does not match its own
// rows, reads them back and finds its session there.
func (s *Store) Claim(
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
		for part := range batches(slices.CompactFunc(fires[:n:n], sameFire)) {
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

// claimBatch claims fires of one revision, sorted, each once.
func (s *Store) claimBatch(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	ids := idsOf(fires)
	n, err := s.alone(ctx, "claiming fires", func() *statement {
		return s.takeOver(session, 0, fires[0].Rev, ids)
	})
	if err != nil {
		return nil, err
	}
	if int(n) == len(fires) {
		for i := range fires {
			fires[i].Owner = session
		}
		return s.refreshDone(ctx, session, fires)
	}
	return s.claimSlowly(ctx, session, fires[0].Rev, ids)
}

// refreshDone reads those of the fires won that had an attempt before: which of its targets have taken
// a fire is in its row alone. First attempts, nearly all, cost no read. One that was completed
// since the claim is the session's no more, and is not won.
func (s *Store) refreshDone(
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
		return nil, err // the claim stands, and a repeated one finds it
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

// takeOver is the claim of fires that have the given owner, 0 for none.
func (s *Store) takeOver(session, from timer.ID, rev int32, ids []timer.FireID) *statement {
	return stmt(
		"UPDATE fires"+s.dialect.byPrimary+" SET owner=",
	).int(int64(session)).
		add(" WHERE ").
		fires(s.dialect, ids).
		add(" AND owner=").
		int(int64(from)).
		add(" AND rev=").
		int(int64(rev)).
		add(" AND ").
		live(session)
}

// claimSlowly finds out what became of a batch of which not all were free: some are finished, some
// another's, some its own already, some a dead session's, which it takes over under the condition
// that they still are that session's.
func (s *Store) claimSlowly(
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
	dead, err := s.expiredAmong(ctx, others)
	if err != nil {
		return nil, err
	}
	for _, owner := range dead {
		n, err := s.alone(ctx, "taking over fires", func() *statement {
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
func (s *Store) OpenAmong(ctx context.Context, ids []timer.FireID) (open []timer.Fire, err error) {
	ids = sortedIDs(slices.Clone(ids))
	err = s.read(ctx, "reading open fires", func(ctx context.Context, c sqlx.QueryerContext) error {
		open = nil
		for part := range batches(ids) {
			rows, err := s.openFires(ctx, c, part, "")
			if err != nil {
				return err
			}
			open = append(open, rows...)
		}
		return nil
	})
	return open, err
}

// readFires reads open fires by id, in any order.
func (s *Store) readFires(ctx context.Context, ids []timer.FireID) (fires []timer.Fire, err error) {
	err = s.read(ctx, "reading fires", func(ctx context.Context, c sqlx.QueryerContext) error {
		fires, err = s.openFires(ctx, c, ids, "")
		return err
	})
	return fires, err
}

// expiredAmong returns those owners that have ended, or whose row is gone since: dead is for ever.
// They come sorted, so that two calls take over in the same order.
func (s *Store) expiredAmong(
	ctx context.Context,
	owners map[timer.ID][]timer.FireID,
) (dead []timer.ID, err error) {
	for id := range owners {
		dead = append(dead, id)
	}
	slices.Sort(dead)
	var live []timer.ID
	err = s.read(ctx, "reading sessions", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.selectAll(
			ctx,
			c,
			&live,
			stmt("SELECT id FROM sessions WHERE ended_ms=0 AND id").idList(dead),
		)
	})
	return slices.DeleteFunc(dead, func(id timer.ID) bool { return slices.Contains(live, id) }), err
}

func idsOf(fires []timer.Fire) []timer.FireID {
	ids := make([]timer.FireID, len(fires))
	for i := range fires {
		ids[i] = fires[i].FireID
	}
	return ids
}
