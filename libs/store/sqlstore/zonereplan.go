package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// zoneReplan is the row of zone_replan: a walk through all timers in order of id.
type zoneReplan struct {
	Hash  string `db:"hash"`
	UpTo  int64  `db:"up_to"`
	Alone int64  `db:"alone"`
	Done  bool   `db:"done"`
}

// What zone_replan.alone says: which live processes have other rules than the walk's.
const (
	besideMigrators = 0 // they plan timers that the walk has marked
	besideOthers    = 1 // they plan what they make or change themselves
	aloneInAll      = 2
)

// aloneBeside is how alone a walk is while a process of other rules is live.
func aloneBeside(h *store.ZoneHolder) int64 {
	if h.Expands {
		return besideMigrators
	}
	return besideOthers
}

// begin goes on with the walk for the rules mine, or begins one; false: there is nothing to do.
// alone says who has other rules now. What was expanded during a walk that was not alone may have
// been expanded by other rules: it is done once more when their last migrator is gone, and when
// nobody has them.
func (w *zoneReplan) begin(mine string, alone int64) bool {
	switch {
	case w.Hash != mine:
		*w = zoneReplan{Hash: mine, Alone: alone}
	case !w.Done:
		w.Alone = min(w.Alone, alone)
	case alone > w.Alone,
		alone == aloneInAll: // after a last walk nothing is left to do, and this is not asked
		*w = zoneReplan{Hash: mine, Alone: alone}
	default:
		return false
	}
	return true
}

// ReplanZones does one page in one transaction, under the lock of the replan's row: processes that
// do so at once take turns and share the walk. One that dies leaves its page undone; where only the
// answer was lost, the page is done. Timers are locked in order of id, as an edited calendar locks
// them: an expansion that read the old rules is finished first, and what it expanded is planned
// anew.
func (s *Store) ReplanZones(
	ctx context.Context,
	id timer.ID,
	limit int,
) (step store.ZoneReplan, err error) {
	err = s.write(ctx, "replanning time zones", func(ctx context.Context, c runner) error {
		step = store.ZoneReplan{}
		walk, err := s.lockZoneReplan(ctx, c)
		if err != nil {
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
		changed, rules, err := s.changedZones(ctx, c)
		if err != nil || rules < 2 || !latest(holders, mine) ||
			!walk.begin(mine.Hash, alone(holders, mine)) {
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
		_, err = s.exec(
			ctx,
			c,
			stmt("UPDATE zone_replan SET hash=").bind(walk.Hash).add(",up_to=").int(walk.UpTo).
				add(",alone=").
				int(walk.Alone).add(",done=").int(flag(walk.Done)).add(" WHERE id=1"),
		)
		return err
	})
	return step, err
}

func (s *Store) lockZoneReplan(ctx context.Context, c runner) (w zoneReplan, err error) {
	err = s.selectOne(
		ctx,
		c,
		&w,
		stmt("SELECT hash,up_to,alone,done FROM zone_replan WHERE id=1"+s.dialect.forUpdate),
	)
	return w, err
}

// latest tells whether a holder's rules are those to plan by. The order is total, so that all agree
// on it: where versions do not say which is newer, it only matters that one of them is.
func latest(holders []store.ZoneHolder, mine *store.ZoneHolder) bool {
	top := mine
	for i := range holders {
		h := &holders[i]
		if h.Version > top.Version || h.Version == top.Version && h.Hash > top.Hash {
			top = h
		}
	}
	return top.Hash == mine.Hash
}

func alone(holders []store.ZoneHolder, mine *store.ZoneHolder) int64 {
	least := int64(aloneInAll)
	for i := range holders {
		if holders[i].Hash != mine.Hash {
			least = min(least, aloneBeside(&holders[i]))
		}
	}
	return least
}

// changedZones returns the zones in which any rules that are known differ, and how many rules are
// known. A zone that some of them do not have differs.
func (s *Store) changedZones(
	ctx context.Context,
	c runner,
) (changed map[string]bool, rules int, err error) {
	if err := s.selectOne(
		ctx,
		c,
		&rules,
		stmt("SELECT COUNT(*) FROM zone_rules"),
	); err != nil ||
		rules < 2 {
		return nil, rules, err
	}
	var texts [][]byte
	if err := s.selectAll(ctx, c, &texts, stmt("SELECT zones FROM zone_rules")); err != nil {
		return nil, 0, err
	}
	all := make([]map[string]string, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &all[i]); err != nil {
			return nil, 0, fmt.Errorf("reading the rules of time zones: %w", err)
		}
	}
	changed = map[string]bool{}
	for _, zones := range all[1:] { // where two differ, one of them differs from the first
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

// dependsOn tells whether a timer depends on one of some zones.
func dependsOn(t *timer.Timer, zones map[string]bool) bool {
	return slices.ContainsFunc(
		t.Zones(),
		func(name string) bool { return zones[cmp.Or(name, "UTC")] },
	)
}

// replanPage marks the next timers of a walk that depend on changed zones. last: there are no more.
// A timer that is edited between the read and the mark was edited by a live process: by these
// rules, or the walk is not alone.
func (s *Store) replanPage(
	ctx context.Context,
	c runner,
	w *zoneReplan,
	changed map[string]bool,
	limit int,
	step *store.ZoneReplan,
) (last bool, err error) {
	nowMS, err := s.nowMS(ctx, c)
	if err != nil {
		return false, err
	}
	var rows []timerRow
	err = s.selectAll(
		ctx,
		c,
		&rows,
		stmt("SELECT "+timerColumns+" FROM timers"+s.dialect.byPrimary+" WHERE id>").int(w.UpTo).
			add(" AND status<>").int(rowDeleted).add(" ORDER BY id LIMIT ").int(int64(limit)),
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
	w.UpTo = rows[len(rows)-1].ID
	ts, err := s.timers(ctx, c, rows, nil)
	if err != nil {
		return false, err
	}
	var ids []timer.ID
	for i := range ts {
		if dependsOn(&ts[i], changed) {
			ids = append(ids, ts[i].ID)
		}
	}
	step.Marked = len(ids)
	return w.Done, s.requestTimerReplans(ctx, c, ids, nowMS)
}

// endZoneReplan forgets all other rules, if nobody had them during the walk, nor has now. Holders
// are locked: one that renews itself waits, and finds its rules forgotten.
func (s *Store) endZoneReplan(ctx context.Context, c runner, w *zoneReplan, id timer.ID) error {
	if w.Alone < aloneInAll {
		return nil
	}
	holders, err := s.zoneHolders(ctx, c, s.dialect.forUpdate)
	if err != nil {
		return err
	}
	mine, err := findHolder(holders, id)
	if err != nil {
		return err
	}
	if w.Alone = alone(holders, mine); w.Alone < aloneInAll {
		return nil
	}
	_, err = s.exec(ctx, c, stmt("DELETE FROM zone_rules WHERE hash<>").bind(w.Hash))
	return err
}
