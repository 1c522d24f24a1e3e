package scheduling

import (
	"context"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/calendars"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// A timer may have an hour of open fires when it is edited. Its edit decides about the first
// instants only, and leaves the others to the follow-up: S33. The row in replans says that there is
// one. The follow-up has reached next_due of the timer, so both move in one transaction.
//
// A page holds the lock on the timer's row. Without it, an edit, a change of status and an
// expansion could each plan the same instants by another version. A page has a bounded number of
// fires, of one timer, so whatever waits for it waits for milliseconds.
//
// Two processes: each skips the timers that another has locked. A process that dies leaves its page
// undone. A page that is done twice finds next_due moved. If no process does pages, Expand does
// them once the fires of the edit are used up.

// DefaultMaxEditFires is the largest number of fires that an edit plans itself. An edit that takes
// back no more, and plans no more, needs no follow-up.
const DefaultMaxEditFires = 64

// editAheadMS is how far ahead an edit with a follow-up plans. The follow-up has this time.
const editAheadMS = int64(10 * time.Second / time.Millisecond)

const (
	replanCandidates = 16          // timers that a page chooses from
	replanRounds     = 4           // further plans of a timer with max_fires
	replanRetryDelay = time.Minute // of a timer that is not active, or whose plan fails
)

// replan is a row of replans: fires of older versions may be open from next_due of the timer up to
// untilMS, excluded. The next page is due at nextPageMS.
type replan struct{ untilMS, nextPageMS int64 }

// recurring reports whether a timer has any number of fires that its schedule leads to.
func recurring(t *timer.Timer) bool {
	return t.Definition.Schedule.Kind.Repeats() && t.Definition.Schedule.MaxFires == 0
}

// findReplans reads the replans of timers whose rows the caller has locked.
func (x *expansion) findReplans(ctx context.Context, ids []timer.ID) error {
	slices.Sort(ids)
	for part := range sqldb.Batches(ids) {
		var rows []struct {
			ID      int64 `db:"timer_id"`
			UntilMS int64 `db:"until_ms"`
		}
		if err := x.store.db.SelectAll(
			ctx,
			x.c,
			&rows,
			sqldb.Stmt("SELECT timer_id,until_ms FROM replans WHERE timer_id").IDList(part),
		); err != nil {
			return err
		}
		for _, r := range rows {
			x.replans[timer.ID(r.ID)] = r.UntilMS
		}
	}
	return nil
}

// findReplansOf reads the replans of those timers that were edited.
func (x *expansion) findReplansOf(ctx context.Context, ts []timer.Timer) error {
	var ids []timer.ID
	for i := range ts {
		if ts[i].Version > 1 {
			ids = append(ids, ts[i].ID)
		}
	}
	return x.findReplans(ctx, ids)
}

// findReplansByID is findReplansOf for a map.
func (x *expansion) findReplansByID(ctx context.Context, byID map[timer.ID]*timer.Timer) error {
	var ids []timer.ID
	for id, t := range byID {
		if t.Version > 1 {
			ids = append(ids, id)
		}
	}
	return x.findReplans(ctx, ids)
}

// planNext calls the planner. A follow-up that is behind plans as of the instant that it has
// reached. Otherwise the misfire policy would leave out instants in one record that have open fires
// or outcomes already. Executors apply it to each of these fires instead.
func (x *expansion) planNext(t *timer.Timer) store.Plan {
	nowMS := x.nowMS
	if t.NextDueMS < x.replans[t.ID] {
		nowMS = min(nowMS, max(t.NextDueMS, t.ActiveSinceMS))
	}
	p := x.plan(t, nowMS)
	if p.Err == nil {
		p.Err = checkPlan(t, &p, x.nowMS)
	}
	return p
}

// manyAhead counts the open fires beyond now of a timer that is to be edited, if they are more than
// the edit may read. It returns the instant behind the last of them, 0 if they are few. An instant
// that is too far away for an outcome has an open fire, so it is counted without a read.
func (x *expansion) manyAhead(ctx context.Context, t *timer.Timer) (n, untilMS int64, err error) {
	if !recurring(t) || t.Replan {
		return 0, 0, nil
	}
	if err := x.findMixedZones(ctx); err != nil || calendars.DependsOn(t, x.mixedZones) {
		return 0, 0, err
	}
	ids := x.plannedAhead(t)
	if len(ids) <= x.store.settings.MaxEditFires {
		return 0, 0, nil
	}
	soon := 0
	for soon < len(ids) && ids[soon].DueMS <= x.nowMS+history.MaxClockSkew.Milliseconds() {
		soon++
	}
	n = int64(len(ids) - soon)
	for part := range sqldb.Batches(ids[:soon]) {
		open, err := x.store.fires.Open(ctx, x.c, part, "")
		if err != nil {
			return 0, 0, err
		}
		n += int64(len(open))
	}
	return n, ids[len(ids)-1].DueMS + 1, nil
}

// shorten cuts the plan of an edit that has more fires than the edit may write. Expand continues
// after these fires, unless the follow-up has done so before.
func (x *expansion) shorten(t *timer.Timer, p *store.Plan) {
	most := x.store.settings.MaxEditFires
	if !x.isEdit || !recurring(t) || len(p.Fires) <= most {
		return
	}
	cutPlan(p, min(x.nowMS+editAheadMS, p.Fires[most].DueMS-1))
	p.ExpandAtMS = p.NextDueMS
	x.replans[t.ID] = max(x.replans[t.ID], x.openUntil[t.ID], p.NextDueMS+1)
}

// planRest sees to the open fires of older versions up to an instant that a first plan has not
// reached. If migrators were down when these are due, executors would skip them as superseded,
// though the new version has them. The follow-up decides about those of a recurring timer. With
// max_fires it cannot: what executors call before it comes would not count. So such a timer is
// planned on here. What few rounds leave is decided as each expansion comes to it.
func (x *expansion) planRest(t *timer.Timer, openUntilMS int64) (fires []timer.Fire) {
	if recurring(t) && t.NextDueMS < openUntilMS {
		x.replans[t.ID] = max(x.replans[t.ID], openUntilMS)
		x.followUp(t, x.nowMS)
		return nil
	}
	for range replanRounds {
		if !t.Definition.Schedule.Kind.Repeats() || t.NextDueMS >= openUntilMS ||
			store.AllCreated(t) {
			break
		}
		more, ok := x.expand(t)
		if !ok {
			break
		}
		fires = append(fires, more...)
	}
	return fires
}

// followUp sets when the next page of an edited or expanded timer is due, or ends its replan.
func (x *expansion) followUp(t *timer.Timer, nextPageMS int64) {
	untilMS, pending := x.replans[t.ID]
	switch {
	case !pending:
	case t.Status == timer.StatusDeleted, !recurring(t), t.NextDueMS >= untilMS:
		x.replanRows[t.ID] = replan{}
	default:
		x.replanRows[t.ID] = replan{untilMS: untilMS, nextPageMS: nextPageMS}
	}
}

// saveReplans writes what followUp has set.
func (x *expansion) saveReplans(ctx context.Context) error {
	var ended, pending []timer.ID
	for id, r := range x.replanRows {
		if r.untilMS == 0 {
			ended = append(ended, id)
		} else {
			pending = append(pending, id)
		}
	}
	slices.Sort(ended)
	slices.Sort(pending)
	for part := range sqldb.Batches(pending) {
		q := sqldb.Stmt("INSERT INTO replans (timer_id,until_ms,next_page_ms) VALUES ")
		for i, id := range part {
			q.Row(i == 0, int64(id), x.replanRows[id].untilMS, x.replanRows[id].nextPageMS)
		}
		q.Add(x.store.db.Dialect.Set("timer_id", "until_ms", "next_page_ms"))
		if _, err := x.store.db.Exec(ctx, x.c, q); err != nil {
			return err
		}
	}
	for part := range sqldb.Batches(ended) {
		q := sqldb.Stmt(x.store.db.Dialect.DeleteFrom("replans", "PRIMARY") + " WHERE timer_id").
			IDList(part)
		if _, err := x.store.db.Exec(ctx, x.c, q); err != nil {
			return err
		}
	}
	return nil
}

// ContinueReplans reads the candidates without a lock. It then locks the first of them that nobody
// else has locked, and works on what it finds there: another process may have done the page.
func (s *Scheduling) ContinueReplans(
	ctx context.Context,
	plan store.Planner,
) (fires []timer.Fire, more bool, err error) {
	var ids []timer.ID
	work := func(ctx context.Context, c sqldb.Runner) error {
		fires, more = nil, false
		var rows []timers.Row
		q := sqldb.Stmt("SELECT " + timers.Columns + " FROM timers" + s.db.Dialect.ByPrimary + " WHERE id").
			IDList(ids).
			Add(" LIMIT 1" + s.db.SkipLocked())
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil || len(rows) == 0 {
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		ts, err := s.timers.Complete(ctx, c, rows, nil)
		if err != nil {
			return err
		}
		x := s.newExpansion(c, plan, nowMS)
		if rows[0].Replan == timers.ReplanCalendar {
			x.calendar[ts[0].ID] = true
		}
		more = true
		var due []timer.ID
		q = sqldb.Stmt("SELECT timer_id FROM replans WHERE timer_id=").Int(rows[0].ID).
			Add(" AND next_page_ms<=").Int(nowMS)
		if err := s.db.SelectAll(ctx, c, &due, q); err != nil || len(due) == 0 {
			return err // another process has done this page
		}
		if err := s.db.GuardTimers(ctx, c, []timer.ID{timer.ID(rows[0].ID)}); err != nil {
			return err
		}
		fires, err = x.replanPage(ctx, &ts[0])
		return err
	}
	err = s.withoutUnreadable(ctx, ofReplans, replanRetryDelay, func() (err error) {
		if ids, err = s.dueReplans(ctx); err != nil || len(ids) == 0 {
			return err
		}
		return s.db.Write(ctx, "continuing a replan", work)
	})
	// With an error, fires is what the last commit would have created: nobody knows whether it did.
	return fires, more, err
}

func (s *Scheduling) dueReplans(ctx context.Context) (ids []timer.ID, err error) {
	err = s.db.Read(ctx, "reading replans", func(ctx context.Context, c sqlx.QueryerContext) error {
		return s.db.SelectAll(
			ctx,
			c,
			&ids,
			s.fromDueReplans(sqldb.Stmt("SELECT timer_id")).
				Add(" ORDER BY next_page_ms LIMIT ").Int(replanCandidates),
		)
	})
	return ids, err
}

// replanPage does the next page of one timer. A timer that is not active is postponed: the change or
// the expansion that activates it goes on.
func (x *expansion) replanPage(ctx context.Context, t *timer.Timer) ([]timer.Fire, error) {
	if t.Status == timer.StatusActive {
		return x.expandAll(ctx, nil, []timer.Timer{*t})
	}
	if err := x.findReplans(ctx, []timer.ID{t.ID}); err != nil {
		return nil, err
	}
	x.followUp(t, max(x.nowMS+replanRetryDelay.Milliseconds(), t.PausedUntilMS))
	return nil, x.saveReplans(ctx)
}

// Replanning reads replans and timers in one statement, so it sees no page half done.
func (s *Scheduling) Replanning(
	ctx context.Context,
	ids []timer.FireID,
) (undecided []timer.FireID, err error) {
	err = s.db.Read(
		ctx,
		"reading replans",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			undecided, err = s.timers.Replanning(ctx, c, ids)
			return err
		},
	)
	return undecided, err
}
