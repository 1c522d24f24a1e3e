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
	maxProcessName = 255
)

// RegisterProcess writes the rules and the process under the lock on the row of zone_replan, and tells
// a walk for other rules that it is not exclusive. A walk that began before thus knows of the
// process when it ends, even if the process is gone by then. No rules are deleted between the two
// writes.
func (s *CalendarStore) RegisterProcess(
	ctx context.Context,
	p store.Process,
	rules map[string]string,
) error {
	zones, err := json.Marshal(rules) // sorted by name
	if err != nil {
		return fmt.Errorf("encoding the rules of time zones: %w", err)
	}
	settings, err := json.Marshal(p.Settings)
	if err != nil {
		return fmt.Errorf("encoding the settings of a process: %w", err)
	}
	sum := sha256.Sum256(zones)
	p.Hash = hex.EncodeToString(sum[:])
	return s.db.Write(
		ctx,
		"registering a process",
		func(ctx context.Context, c sqldb.Runner) error {
			if _, err := s.lockZoneReplan(ctx, c); err != nil {
				return err
			}
			if err := s.db.Guard(ctx, c, sqldb.GuardZones); err != nil {
				return err
			}
			q := sqldb.Stmt(
				"INSERT INTO zone_rules (hash,zones,added_ms) VALUES (",
			).Bind(p.Hash).
				Add(",").
				Bind(zones).
				Add(",").
				NowMS(s.db.Dialect).
				Add(")" + s.db.Dialect.OnConflictNothing("hash"))
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			q = sqldb.Stmt(
				"INSERT INTO processes (id,name,version,hash,is_migrator,settings,renewed_ms) VALUES (",
			).
				Int(int64(p.ID)).
				Add(",").
				Bind(sqldb.Clip(p.Name, maxProcessName)).
				Add(",").
				Bind(sqldb.Clip(p.Version, maxZoneVersion)).
				Add(",").
				Bind(p.Hash).
				Add(",").
				Int(sqldb.Flag(p.Expands)).
				Add(",").
				Bind(settings).
				Add(",").
				NowMS(s.db.Dialect).
				Add(")").
				Add(s.db.Dialect.Set("id", "version", "hash", "is_migrator", "settings", "renewed_ms"))
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
			most := exclusivityBeside(&p)
			_, err := s.db.Exec(
				ctx,
				c,
				sqldb.Stmt(
					"UPDATE zone_replan SET exclusivity=",
				).Int(most).
					Add(" WHERE id=1 AND exclusivity>").
					Int(most).
					Add(" AND hash<>").
					Bind(p.Hash),
			)
			return err
		},
	)
}

// RenewProcess first writes, then reads. If a replan ends before the write, it has deleted the
// process's rules, and the read finds them missing. If it ends after the write, it has seen that
// the process is alive.
func (s *CalendarStore) RenewProcess(
	ctx context.Context,
	id timer.ID,
) (in store.ProcessList, err error) {
	n, err := s.db.Urgent(ctx, "renewing a process", func() *sqldb.Statement {
		return sqldb.Stmt(
			"UPDATE processes SET renewed_ms=",
		).NowMS(s.db.Dialect).
			Add(" WHERE id=").
			Int(int64(id)).
			Add(" AND renewed_ms>").
			NowMS(s.db.Dialect).
			Add("-").
			Int(store.ProcessTTL.Milliseconds())
	})
	if err != nil {
		return in, err
	}
	if n == 0 {
		return in, processNotFound(id)
	}
	err = s.db.Read(
		ctx,
		"reading processes",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var database string
			if err := s.db.SelectOne(
				ctx,
				c,
				&database,
				sqldb.Stmt("SELECT token FROM deployment WHERE id=1"),
			); err != nil {
				return err
			}
			var hashes []string
			if err := s.db.SelectAll(
				ctx,
				c,
				&hashes,
				sqldb.Stmt("SELECT hash FROM zone_rules"),
			); err != nil {
				return err
			}
			all, err := s.processes(ctx, c, "")
			if err != nil {
				return err
			}
			mine, err := findProcess(all, id)
			if err != nil {
				return err
			}
			if !slices.Contains(hashes, mine.Hash) {
				return processNotFound(id)
			}
			in = store.ProcessList{Processes: all, Rules: len(hashes), Database: database}
			return nil
		},
	)
	return in, err
}

// DropProcess deletes the process. Its rules stay until a replan has visited all timers.
func (s *CalendarStore) DropProcess(ctx context.Context, id timer.ID) error {
	_, err := s.db.Urgent(ctx, "dropping a process", func() *sqldb.Statement {
		return sqldb.Stmt("DELETE FROM processes WHERE id=").Int(int64(id))
	})
	return err
}

// processes returns the alive processes in order of id.
func (s *CalendarStore) processes(
	ctx context.Context,
	c sqlx.QueryerContext,
	lock string,
) (all []store.Process, err error) {
	var rows []struct {
		ID       int64  `db:"id"`
		Name     string `db:"name"`
		Version  string `db:"version"`
		Hash     string `db:"hash"`
		Expands  bool   `db:"is_migrator"`
		Settings []byte `db:"settings"`
	}
	q := sqldb.Stmt(
		"SELECT id,name,version,hash,is_migrator,settings FROM processes WHERE renewed_ms>",
	).NowMS(s.db.Dialect).
		Add("-").
		Int(store.ProcessTTL.Milliseconds()).
		Add(" ORDER BY id" + lock)
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	for _, r := range rows {
		p := store.Process{
			ID:      timer.ID(r.ID),
			Name:    r.Name,
			Version: r.Version,
			Hash:    r.Hash,
			Expands: r.Expands,
		}
		if err := json.Unmarshal(r.Settings, &p.Settings); err != nil {
			return nil, fmt.Errorf("reading the settings of process %s: %w", r.Name, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func findProcess(all []store.Process, id timer.ID) (*store.Process, error) {
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
	}
	return nil, processNotFound(id)
}

func processNotFound(id timer.ID) error {
	return timer.NoSuch("process", id.String())
}
