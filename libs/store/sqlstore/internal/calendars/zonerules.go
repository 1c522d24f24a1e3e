package calendars

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	maxZoneVersion = 64
	maxHolderName  = 255
)

// RegisterZones writes the rules and the holder under the lock on the row of zone_replan, and tells
// a walk for other rules that it is not exclusive. A walk that began before thus knows of the
// process when it ends, even if the process is gone by then. No rules are deleted between the two
// writes.
func (s *CalendarStore) RegisterZones(
	ctx context.Context,
	h store.ZoneHolder,
	rules map[string]string,
) error {
	zones, err := json.Marshal(rules) // sorted by name
	if err != nil {
		return fmt.Errorf("encoding the rules of time zones: %w", err)
	}
	sum := sha256.Sum256(zones)
	h.Hash = hex.EncodeToString(sum[:])
	return s.db.Write(
		ctx,
		"registering time zones",
		func(ctx context.Context, c sqldb.Runner) error {
			if _, err := s.lockZoneReplan(ctx, c); err != nil {
				return err
			}
			if err := s.db.Guard(ctx, c, sqldb.GuardZones); err != nil {
				return err
			}
			q := sqldb.Stmt(
				"INSERT INTO zone_rules (hash,zones,added_ms) VALUES (",
			).Bind(h.Hash).
				Add(",").
				Bind(zones).
				Add(",").
				NowMS(s.db.Dialect).
				Add(")" + s.db.Dialect.OnConflictNothing("hash"))
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			q = sqldb.Stmt(
				"INSERT INTO zone_holders (id,name,version,hash,is_migrator,renewed_ms) VALUES (",
			).Int(int64(h.ID)).
				Add(",").
				Bind(sqldb.Clip(h.Name, maxHolderName)).
				Add(",").
				Bind(sqldb.Clip(h.Version, maxZoneVersion)).
				Add(",").
				Bind(h.Hash).
				Add(",").
				Int(sqldb.Flag(h.Expands)).
				Add(",").
				NowMS(s.db.Dialect).
				Add(")").
				Add(s.db.Dialect.Set("id", "version", "hash", "is_migrator", "renewed_ms"))
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			most := exclusivityBeside(&h)
			_, err := s.db.Exec(
				ctx,
				c,
				sqldb.Stmt(
					"UPDATE zone_replan SET exclusivity=",
				).Int(most).
					Add(" WHERE id=1 AND exclusivity>").
					Int(most).
					Add(" AND hash<>").
					Bind(h.Hash),
			)
			return err
		},
	)
}

// RenewZones first writes, then reads. If a replan ends before the write, it has deleted the
// process's rules, and the read finds them missing. If it ends after the write, it has seen that
// the process is alive.
func (s *CalendarStore) RenewZones(
	ctx context.Context,
	id timer.ID,
) (in store.ZonesInUse, err error) {
	n, err := s.db.Urgent(ctx, "renewing time zones", func() *sqldb.Statement {
		return sqldb.Stmt(
			"UPDATE zone_holders SET renewed_ms=",
		).NowMS(s.db.Dialect).
			Add(" WHERE id=").
			Int(int64(id)).
			Add(" AND renewed_ms>").
			NowMS(s.db.Dialect).
			Add("-").
			Int(store.ZoneHolderTTL.Milliseconds())
	})
	if err != nil {
		return in, err
	}
	if n == 0 {
		return in, holderNotFound(id)
	}
	err = s.db.Read(
		ctx,
		"reading time zones",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var hashes []string
			if err := s.db.SelectAll(
				ctx,
				c,
				&hashes,
				sqldb.Stmt("SELECT hash FROM zone_rules"),
			); err != nil {
				return err
			}
			holders, err := s.zoneHolders(ctx, c, "")
			if err != nil {
				return err
			}
			mine, err := findHolder(holders, id)
			if err != nil {
				return err
			}
			if !slices.Contains(hashes, mine.Hash) {
				return holderNotFound(id)
			}
			in = store.ZonesInUse{Holders: holders, Rules: len(hashes)}
			return nil
		},
	)
	return in, err
}

// DropZones deletes the holder. Its rules stay until a replan has visited all timers.
func (s *CalendarStore) DropZones(ctx context.Context, id timer.ID) error {
	_, err := s.db.Urgent(ctx, "dropping time zones", func() *sqldb.Statement {
		return sqldb.Stmt("DELETE FROM zone_holders WHERE id=").Int(int64(id))
	})
	return err
}

// zoneHolders returns the alive holders in order of id.
func (s *CalendarStore) zoneHolders(
	ctx context.Context,
	c sqlx.QueryerContext,
	lock string,
) (all []store.ZoneHolder, err error) {
	var rows []struct {
		ID      int64  `db:"id"`
		Name    string `db:"name"`
		Version string `db:"version"`
		Hash    string `db:"hash"`
		Expands bool   `db:"is_migrator"`
	}
	q := sqldb.Stmt(
		"SELECT id,name,version,hash,is_migrator FROM zone_holders WHERE renewed_ms>",
	).NowMS(s.db.Dialect).
		Add("-").
		Int(store.ZoneHolderTTL.Milliseconds()).
		Add(" ORDER BY id" + lock)
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	for _, r := range rows {
		all = append(
			all,
			store.ZoneHolder{
				ID:      timer.ID(r.ID),
				Name:    r.Name,
				Version: r.Version,
				Hash:    r.Hash,
				Expands: r.Expands,
			},
		)
	}
	return all, nil
}

func findHolder(holders []store.ZoneHolder, id timer.ID) (*store.ZoneHolder, error) {
	for i := range holders {
		if holders[i].ID == id {
			return &holders[i], nil
		}
	}
	return nil, holderNotFound(id)
}

func holderNotFound(id timer.ID) error {
	return timer.NotFound("holder of time zones", id.String())
}
