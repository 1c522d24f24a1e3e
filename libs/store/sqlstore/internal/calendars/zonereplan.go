package calendars

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// zoneReplan is the row of zone_replan: a walk through all timers in order of id.
type zoneReplan struct {
	Hash        string `db:"hash"`
	LastTimerID int64  `db:"last_timer_id"`
	Exclusivity int64  `db:"exclusivity"`
	Done        bool   `db:"done"`
}

// The values of exclusivity tell which alive processes have other rules than the walk.
const (
	sharedWithMigrator = 0 // they plan timers that the walk has marked
	sharedWithOther    = 1 // they plan only timers that they create or change
	exclusive          = 2
)

// exclusivityBeside returns the exclusivity of a walk while a process with other rules is alive.
func exclusivityBeside(h *store.Process) int64 {
	if h.Expands {
		return sharedWithMigrator
	}
	return sharedWithOther
}

// begin continues the walk for the rules mine, or begins one. It returns false if there is nothing
// to do. exclusivity tells who has other rules now. Timers may have been expanded by other rules
// during a walk that was not exclusive. The walk is therefore repeated when the last migrator with
// other rules is gone, and when nobody has other rules.
func (w *zoneReplan) begin(mine string, exclusivity int64) bool {
	switch {
	case w.Hash != mine:
		*w = zoneReplan{Hash: mine, Exclusivity: exclusivity}
	case !w.Done:
		w.Exclusivity = min(w.Exclusivity, exclusivity)
	case exclusivity > w.Exclusivity,
		// after an exclusive walk one set of rules is left, and ReplanZones does nothing
		exclusivity == exclusive:
		*w = zoneReplan{Hash: mine, Exclusivity: exclusivity}
	default:
		return false
	}
	return true
}

// ReplanZones does one page in one transaction, under the lock on the row of zone_replan. Processes
// that run at once therefore share the walk. A process that dies leaves its page undone. If only
// the answer was lost, the page is done. Timers are locked in order of id, as for a changed
// calendar. An expansion that read the old rules finishes first, and its fires are replanned.
func (s *CalendarStore) ReplanZones(
	ctx context.Context,
	id timer.ID,
	limit int,
) (step store.ZoneReplan, err error) {
	err = s.db.Write(ctx, "replanning time zones", func(ctx context.Context, c sqldb.Runner) error {
		step = store.ZoneReplan{}
		walk, err := s.lockZoneReplan(ctx, c)
		if err != nil {
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
		if !latest(all, mine) || !walk.begin(mine.Hash, exclusivity(all, mine)) {
			return nil
		}
		changed, rules, err := s.zones.ChangedZones(ctx, c)
		if err != nil || rules < 2 {
			return err
		}
		last, err := s.replanPage(ctx, c, &walk, changed, limit, &step)
		if err != nil {
			return err
		}
		if last {
			if err := s.endZoneReplan(ctx, c, &walk, id); err != nil {
				return err
			}
		}
		step.More = !last
		_, err = s.db.Exec(
			ctx,
			c,
			sqldb.Stmt(
				"UPDATE zone_replan SET hash=",
			).Bind(walk.Hash).
				Add(",last_timer_id=").
				Int(walk.LastTimerID).
				Add(",exclusivity=").
				Int(walk.Exclusivity).
				Add(",done=").
				Int(sqldb.Flag(walk.Done)).
				Add(" WHERE id=1"),
		)
		return err
	})
	return step, err
}

func (s *CalendarStore) lockZoneReplan(
	ctx context.Context,
	c sqldb.Runner,
) (w zoneReplan, err error) {
	err = s.db.SelectOne(
		ctx,
		c,
		&w,
		sqldb.Stmt(
			"SELECT hash,last_timer_id,exclusivity,done FROM zone_replan WHERE id=1"+s.db.Dialect.ForUpdate,
		),
	)
	return w, err
}

// latest reports whether a process's rules are the ones to plan by. The order is total, so all
// processes agree. If versions do not tell which rules are newer, any order will do.
func latest(all []store.Process, mine *store.Process) bool {
	top := mine
	for i := range all {
		h := &all[i]
		if h.Version > top.Version || h.Version == top.Version && h.Hash > top.Hash {
			top = h
		}
	}
	return top.Hash == mine.Hash
}

func exclusivity(all []store.Process, mine *store.Process) int64 {
	least := int64(exclusive)
	for i := range all {
		if all[i].Hash != mine.Hash {
			least = min(least, exclusivityBeside(&all[i]))
		}
	}
	return least
}

// ChangedZones returns the zones in which the known rules differ, and the number of known rules. A
// zone that only some of them have differs.
func (s *Zones) ChangedZones(
	ctx context.Context,
	c sqldb.Runner,
) (changed map[string]bool, rules int, err error) {
	if err := s.db.SelectOne(
		ctx,
		c,
		&rules,
		sqldb.Stmt("SELECT COUNT(*) FROM zone_rules"),
	); err != nil ||
		rules < 2 {
		return nil, rules, err
	}
	var texts [][]byte
	if err := s.db.SelectAll(
		ctx,
		c,
		&texts,
		sqldb.Stmt("SELECT zones FROM zone_rules"),
	); err != nil {
		return nil, 0, err
	}
	all := make([]map[string]string, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &all[i]); err != nil {
			return nil, 0, fmt.Errorf("reading the rules of time zones: %w", err)
		}
	}
	changed = map[string]bool{}
	for _, zones := range all[1:] { // if two differ, one of them differs from the first
		for name, rule := range zones {
			if all[0][name] != rule {
				changed[name] = true
			}
		}
		for name := range all[0] {
			if _, ok := zones[name]; !ok {
				changed[name] = true
			}
		}
	}
	return changed, len(all), nil
}

// DependsOn reports whether a timer depends on one of the zones.
func DependsOn(t *timer.Timer, zones map[string]bool) bool {
	return slices.ContainsFunc(
		t.Zones(),
		func(name string) bool { return zones[cmp.Or(name, "UTC")] },
	)
}

// replanPage marks the next timers of a walk that depend on changed zones, or cannot be read: a
// migrator that can read them replans them. last is true if there are no more. A timer that is
// edited between the read and the mark was edited by an alive process: by the same rules, or the
// walk is not exclusive.
func (s *CalendarStore) replanPage(
	ctx context.Context,
	c sqldb.Runner,
	w *zoneReplan,
	changed map[string]bool,
	limit int,
	step *store.ZoneReplan,
) (last bool, err error) {
	nowMS, err := s.db.NowMS(ctx, c)
	if err != nil {
		return false, err
	}
	var rows []timers.Row
	err = s.db.SelectAll(
		ctx,
		c,
		&rows,
		sqldb.Stmt(
			"SELECT "+timers.Columns+" FROM timers"+s.db.Dialect.ByPrimary+" WHERE id>",
		).Int(w.LastTimerID).
			Add(" AND status<>").
			Int(timers.RowDeleted).
			Add(" ORDER BY id LIMIT ").
			Int(int64(limit)),
	)
	if err != nil {
		return false, err
	}
	if len(rows) < limit {
		w.Done = true
	}
	if len(rows) == 0 {
		return true, nil
	}
	w.LastTimerID = rows[len(rows)-1].ID
	ts, err := s.timers.CompleteAll(ctx, c, rows, nil)
	if err != nil {
		return false, err
	}
	var ids []timer.ID
	for i := range ts {
		if ts[i].Definition.Unreadable != "" || DependsOn(&ts[i], changed) {
			ids = append(ids, ts[i].ID)
		}
	}
	step.Marked = len(ids)
	return w.Done, s.requestTimerReplans(ctx, c, ids, nowMS)
}

// endZoneReplan deletes all other rules if nobody had them during the walk or has them now. Holders
// are locked: a holder that renews itself waits, and finds its rules deleted.
func (s *CalendarStore) endZoneReplan(
	ctx context.Context,
	c sqldb.Runner,
	w *zoneReplan,
	id timer.ID,
) error {
	if w.Exclusivity < exclusive {
		return nil
	}
	if err := s.db.Guard(ctx, c, sqldb.GuardZones); err != nil {
		return err
	}
	all, err := s.processes(ctx, c, s.db.Dialect.ForUpdate)
	if err != nil {
		return err
	}
	mine, err := findProcess(all, id)
	if err != nil {
		return err
	}
	if w.Exclusivity = exclusivity(all, mine); w.Exclusivity < exclusive {
		return nil
	}
	_, err = s.db.Exec(ctx, c, sqldb.Stmt("DELETE FROM zone_rules WHERE hash<>").Bind(w.Hash))
	return err
}
