package fires

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// releaseColumns are the columns of a fire that a release writes.
var releaseColumns = append([]string{"revision", "owner"}, retryColumns...)

// retryColumns are the columns of a fire that a retry under the same claim writes.
var retryColumns = []string{
	"run_at_ms",
	"run_at_minute",
	"bucket",
	"state",
	"attempt",
	"first_lateness_ms",
	"target_bits",
	"waiting_since_ms",
	"waited_for",
}

// versionColumns are also written by an executor's call, which may call a fire by a later version
// than its row has. A row that an edit has moved on meanwhile keeps its version.
var versionColumns = []string{"version"}

// Release locks the rows that the session owns at the given revision and writes them. The claim of
// another session comes before, and the fire is not released, or it comes after and sees the new
// revision. A repeated call finds a later revision and releases nothing.
func (s *Fires) Release(
	ctx context.Context, session timer.ID, fires []timer.Fire, attempts []timer.Attempt,
) (released []timer.Fire, err error) {
	err = s.db.Write(ctx, "releasing fires", func(ctx context.Context, c sqldb.Runner) error {
		released, _, err = s.ownedOf(ctx, c, session, fires)
		if err != nil {
			return err
		}
		for i := range released {
			f := &released[i]
			f.Rev++
			f.Owner = 0
		}
		if err := s.fires.Save(
			ctx,
			c,
			released,
			slices.Concat(releaseColumns, versionColumns)...); err != nil {
			return err
		}
		return s.history.InsertAttempts(ctx, c, history.AttemptsOf(attempts, released))
	})
	if err != nil {
		return nil, err
	}
	return released, nil
}

// RecordAttempts writes the attempts of fires that stay claimed, and when their next attempt is
// due. A session that takes over the claims of an expired one waits as long as that would have. The
// revision stays: a claim by an older task returns the row's values. A repeated call writes the
// same again.
func (s *Fires) RecordAttempts(
	ctx context.Context, session timer.ID, fires []timer.Fire, attempts []timer.Attempt,
) (lost []timer.FireID, err error) {
	err = s.db.Write(ctx, "recording attempts", func(ctx context.Context, c sqldb.Runner) error {
		var owned []timer.Fire
		owned, lost, err = s.ownedOf(ctx, c, session, fires)
		if err != nil {
			return err
		}
		if err := s.fires.Save(
			ctx,
			c,
			owned,
			slices.Concat(retryColumns, versionColumns)...); err != nil {
			return err
		}
		return s.history.InsertAttempts(ctx, c, history.AttemptsOf(attempts, owned))
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// Begin locks the rows that the session owns at the given revision. The record of an attempt comes
// before, and the row stays as it is, or it comes after. A repeated call writes the same again.
func (s *Fires) Begin(ctx context.Context, session timer.ID, fires []timer.Fire) error {
	sorted := slices.Clone(fires)
	slices.SortStableFunc(sorted, timer.CompareFires)
	sorted = slices.CompactFunc(sorted, sameFire)
	given := make(map[timer.FireID]*timer.Fire, len(sorted))
	for i := range sorted {
		given[sorted[i].FireID] = &sorted[i]
	}
	return s.db.Write(
		ctx,
		"recording begun attempts",
		func(ctx context.Context, c sqldb.Runner) error {
			for part := range sqldb.Batches(sorted) {
				rows, err := s.lockOwned(ctx, c, session, sqldb.IDsOf(part))
				if err != nil {
					return err
				}
				var begun []timer.Fire
				for _, r := range rows {
					if f := given[r.FireID]; f.Rev == r.Rev && r.Attempt == 0 {
						r.FirstLatenessMS = f.FirstLatenessMS
						begun = append(begun, r)
					}
				}
				slices.SortFunc(begun, timer.CompareFires)
				if err := s.fires.Save(ctx, c, begun, "first_lateness_ms"); err != nil {
					return err
				}
			}
			return nil
		},
	)
}

// ownedOf locks the given fires' rows. It returns the fires that the session owns at the given
// revision, sorted, and the ids of the rest.
func (s *Fires) ownedOf(
	ctx context.Context, c sqldb.Runner, session timer.ID, fires []timer.Fire,
) (owned []timer.Fire, lost []timer.FireID, err error) {
	sorted := slices.Clone(fires)
	slices.SortStableFunc(sorted, timer.CompareFires)
	for part := range sqldb.Batches(slices.CompactFunc(sorted, sameFire)) {
		rows, err := s.lockOwned(ctx, c, session, sqldb.IDsOf(part))
		if err != nil {
			return nil, nil, err
		}
		byID := make(map[timer.FireID]*timer.Fire, len(rows))
		for i := range rows {
			byID[rows[i].FireID] = &rows[i]
		}
		for _, f := range part {
			if r := byID[f.FireID]; r != nil && r.Rev == f.Rev {
				f.Owner, f.Version = session, max(f.Version, r.Version)
				owned = append(owned, f)
			} else {
				lost = append(lost, f.FireID)
			}
		}
	}
	return owned, lost, nil
}

// lockOwned locks and returns the rows that the session owns.
func (s *Fires) lockOwned(
	ctx context.Context,
	c sqldb.Runner,
	session timer.ID,
	ids []timer.FireID,
) ([]timer.Fire, error) {
	return s.fires.Select(
		ctx,
		c,
		sqldb.Stmt("SELECT "+Columns+" FROM fires"+s.db.Dialect.ByPrimary+" WHERE ").
			Fires(s.db.Dialect, ids).
			Add(" AND owner=").Int(int64(session)).Add(s.db.Dialect.ForUpdate),
	)
}

// Save writes columns of fires in one statement. The caller has their rows locked: see
// timers.Save.
func (s *Rows) Save(
	ctx context.Context,
	c sqldb.Runner,
	fires []timer.Fire,
	columns ...string,
) error {
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, fires, insertFires) {
		for i := range part {
			addFire(q, i == 0, &part[i])
		}
		if _, err := s.db.Exec(
			ctx,
			c,
			q.Add(s.db.Dialect.Set(sqldb.FireKey, columns...)),
		); err != nil {
			return err
		}
	}
	return nil
}
