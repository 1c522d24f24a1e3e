package timers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The stored statuses. Expansion searches its index for RowActive only.
const (
	rowInactive = 0
	RowActive   = 1
	RowDeleted  = 2
	RowPaused   = 3
	RowNone     = -2 // no row has it
)

// The values of the column replan.
const (
	ReplanNothing = 0
	// ReplanEdited: the timer was edited while it was not active. What is expanded has an older
	// version.
	ReplanEdited = 1
	// ReplanCalendar: a calendar or a time zone changed. What is expanded has the present version.
	ReplanCalendar = 2
)

// StatusToRow returns the stored form of a status.
func StatusToRow(s timer.Status) int64 {
	switch s {
	case timer.StatusActive:
		return RowActive
	case timer.StatusDeleted:
		return RowDeleted
	case timer.StatusPaused:
		return RowPaused
	case timer.StatusInactive:
		return rowInactive
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(string(s), unknownStatus), 10, 64)
	if err != nil {
		return RowNone // StatusChange.Refused keeps it from being written
	}
	return n
}

// unknownStatus begins the status of a row of a newer release. It is not taken for a known one, and
// a change of the row's other columns keeps it.
const unknownStatus = "unknown "

// StatusFromRow returns the status of a row.
func StatusFromRow(n int64) timer.Status {
	switch n {
	case RowActive:
		return timer.StatusActive
	case RowDeleted:
		return timer.StatusDeleted
	case RowPaused:
		return timer.StatusPaused
	case rowInactive:
		return timer.StatusInactive
	default:
		return timer.Status(unknownStatus + strconv.FormatInt(n, 10))
	}
}

// Columns are those of Row.
const Columns = "id,app_id,name,status,version,active_since_ms,active_epoch,next_due_ms,last_due_ms,expand_at_ms,fires_created," +
	"anchor_ms,version_since_ms,replan,inactive_since_ms,paused_until_ms,created_ms,updated_ms,pause_reason,origin"

// Row is a row of timers.
type Row struct {
	ID            int64  `db:"id"`
	AppID         int64  `db:"app_id"`
	Name          string `db:"name"`
	Status        int64  `db:"status"`
	Version       int32  `db:"version"`
	ActiveSinceMS int64  `db:"active_since_ms"`
	ActiveEpoch   int64  `db:"active_epoch"`
	NextDueMS     int64  `db:"next_due_ms"`
	LastDueMS     int64  `db:"last_due_ms"`
	ExpandAtMS    int64  `db:"expand_at_ms"`
	FiresCreated  int64  `db:"fires_created"`
	AnchorMS      int64  `db:"anchor_ms"`
	VersionMS     int64  `db:"version_since_ms"`
	Replan        int64  `db:"replan"`
	InactiveSince int64  `db:"inactive_since_ms"`
	PausedUntilMS int64  `db:"paused_until_ms"`
	CreatedMS     int64  `db:"created_ms"`
	UpdatedMS     int64  `db:"updated_ms"`
	PauseReason   string `db:"pause_reason"`
	Origin        string `db:"origin"`
}

// Timer returns the row's timer, without its definition and its calendars.
func (r Row) Timer(app string) timer.Timer {
	return timer.Timer{
		ID: timer.ID(
			r.ID,
		),
		App:             app,
		AppID:           r.AppID,
		Name:            r.Name,
		Status:          StatusFromRow(r.Status),
		Version:         r.Version,
		ActiveSinceMS:   r.ActiveSinceMS,
		ActiveEpoch:     r.ActiveEpoch,
		NextDueMS:       r.NextDueMS,
		LastDueMS:       r.LastDueMS,
		ExpandAtMS:      r.ExpandAtMS,
		FiresCreated:    r.FiresCreated,
		AnchorMS:        r.AnchorMS,
		VersionMS:       r.VersionMS,
		Replan:          r.Replan != ReplanNothing,
		InactiveSinceMS: r.InactiveSince,
		PauseReason:     r.PauseReason,
		Origin:          r.Origin,
		PausedUntilMS:   r.PausedUntilMS,
		CreatedMS:       r.CreatedMS,
		UpdatedMS:       r.UpdatedMS,
	}
}

// Complete completes rows with the names of their apps, their definitions and their calendars. It
// fills hashes, unless that is nil. If some cannot be read, the error is an *UnreadableError.
func (s *Rows) Complete(
	ctx context.Context, c sqlx.QueryerContext, rows []Row, hashes map[timer.ID][]byte,
) ([]timer.Timer, error) {
	ts, err := s.CompleteAll(ctx, c, rows, hashes)
	if err != nil {
		return nil, err
	}
	return ts, checkReadable(pointers(ts))
}

// CompleteAll is like Complete, but a timer that cannot be read is only marked as
// [timer.Definition.Unreadable]. It is for what needs no definition, or shows it.
func (s *Rows) CompleteAll(
	ctx context.Context, c sqlx.QueryerContext, rows []Row, hashes map[timer.ID][]byte,
) ([]timer.Timer, error) {
	keys := make([]store.VersionKey, len(rows))
	appIDs := make([]int64, len(rows))
	for i, r := range rows {
		keys[i] = store.VersionKey{Timer: timer.ID(r.ID), Version: r.Version}
		appIDs[i] = r.AppID
	}
	names, err := s.apps.Names(ctx, c, appIDs)
	if err != nil {
		return nil, err
	}
	defs, err := s.Versions(ctx, c, keys)
	if err != nil {
		return nil, err
	}
	out := make([]timer.Timer, len(rows))
	for i, r := range rows {
		out[i] = r.Timer(names[r.AppID])
		v, ok := defs[keys[i]]
		if !ok {
			out[i].Definition.Unreadable = fmt.Sprintf(
				"timer %d has no definition of version %d", r.ID, r.Version,
			)
			continue
		}
		out[i].Definition = v.Definition
		if hashes != nil {
			hashes[out[i].ID] = v.hash
		}
	}
	return out, s.fillCalendars(ctx, c, out)
}

// InsertTimers begins the insertion of timers.
const InsertTimers = "INSERT INTO timers (" + Columns + ",live_name,creation_token) VALUES "

// Save writes columns of timers in one statement. The caller has their rows locked.
//
// The INSERT inserts nothing, since every row exists. It is the only statement that both databases
// take for "update many rows, each with its own values". live_name is NULL in the inserted values,
// so it conflicts with nothing. Only the live_name of a deleted timer becomes NULL.
func (s *Rows) Save(
	ctx context.Context,
	c sqldb.Runner,
	ts []timer.Timer,
	replan func(*timer.Timer) int64,
	columns ...string,
) error {
	slices.SortFunc(ts, func(a, b timer.Timer) int { return int(a.ID - b.ID) })
	for q, part := range sqldb.InsertBlocks(s.db.Dialect, ts, InsertTimers) {
		for i := range part {
			AddRow(q, i == 0, &part[i], replan(&part[i])).Add(",NULL,0)")
		}
		q.Add(s.db.Dialect.Set("id", columns...))
		q.Add(
			",live_name=CASE WHEN " + s.db.Dialect.Value(
				"status",
			) + "=2 THEN NULL ELSE timers.live_name END",
		)
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// AddRow adds the values of Columns and leaves the row open.
func AddRow(q *sqldb.Statement, first bool, t *timer.Timer, replan int64) *sqldb.Statement {
	return q.Open(first).Ints(int64(t.ID), t.AppID).Add(",").Bind(t.Name).Add(",").
		Ints(StatusToRow(t.Status), int64(t.Version), t.ActiveSinceMS, t.ActiveEpoch, t.NextDueMS, t.LastDueMS, t.ExpandAtMS, t.FiresCreated,
			t.AnchorMS, t.VersionMS, replan, t.InactiveSinceMS, t.PausedUntilMS, t.CreatedMS, t.UpdatedMS).
		Add(",").Bind(sqldb.Clip(t.PauseReason, timer.MaxReasonLen)).Add(",").Bind(t.Origin)
}

// SetEach writes numeric columns of timers, each row with its own values. The caller has the rows
// locked.
func (s *Rows) SetEach(
	ctx context.Context,
	c sqldb.Runner,
	ids []timer.ID,
	columns []string,
	value func(id timer.ID, column int) int64,
) error {
	slices.Sort(ids)
	for part := range sqldb.Batches(ids) {
		q := sqldb.Stmt("UPDATE timers" + s.db.Dialect.ByPrimary + " SET ")
		for n, column := range columns {
			if n > 0 {
				q.Add(",")
			}
			q.Add(column + "=CASE id")
			for _, id := range part {
				q.Add(" WHEN ").Int(int64(id)).Add(" THEN ").Int(value(id, n))
			}
			q.Add(" END")
		}
		if _, err := s.db.Exec(ctx, c, q.Add(" WHERE id").IDList(part)); err != nil {
			return err
		}
	}
	return nil
}

// CheckApp returns not_found if the app never had the timer.
func (s *Rows) CheckApp(ctx context.Context, app string, id timer.ID) error {
	appID, err := s.apps.ID(ctx, app)
	if err != nil {
		return err
	}
	return s.db.Read(
		ctx,
		"reading a timer",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var n int
			err := s.db.SelectOne(
				ctx,
				c,
				&n,
				sqldb.Stmt(
					"SELECT COUNT(*) FROM timers WHERE id=",
				).Int(int64(id)).
					Add(" AND app_id=").
					Int(appID),
			)
			if err == nil && n == 0 {
				return timer.NotFound("timer", id)
			}
			return err
		},
	)
}

// Lock locks timers' rows in order of id. If some cannot be read, the error is an *UnreadableError.
func (s *Rows) Lock(
	ctx context.Context, c sqldb.Runner, ids []timer.ID,
) (byID map[timer.ID]*timer.Timer, err error) {
	byID, _, err = s.LockAll(ctx, c, ids, nil)
	if err != nil {
		return nil, err
	}
	return byID, checkReadable(maps.Values(byID))
}

// All reads timers without locks, those that cannot be read as by CompleteAll.
func (s *Rows) All(
	ctx context.Context, c sqlx.QueryerContext, ids []timer.ID,
) ([]timer.Timer, error) {
	var rows []Row
	q := sqldb.Stmt("SELECT " + Columns + " FROM timers" + s.db.Dialect.ByPrimary + " WHERE id").
		IDList(ids)
	if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
		return nil, err
	}
	return s.CompleteAll(ctx, c, rows, nil)
}

// LockAll is like Lock, but a timer that cannot be read is only marked, as by CompleteAll. calendar
// has those to replan because of a calendar or time zone. It fills hashes, unless that is nil.
func (s *Rows) LockAll(
	ctx context.Context, c sqldb.Runner, ids []timer.ID, hashes map[timer.ID][]byte,
) (byID map[timer.ID]*timer.Timer, calendar map[timer.ID]bool, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	byID, calendar = make(map[timer.ID]*timer.Timer, len(ids)), map[timer.ID]bool{}
	for part := range sqldb.Batches(slices.Compact(ids)) {
		var rows []Row
		q := sqldb.Stmt(
			"SELECT " + Columns + " FROM timers" + s.db.Dialect.ByPrimary + " WHERE id",
		).IDList(part).
			Add(" ORDER BY id" + s.db.Dialect.ForUpdate)
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return nil, nil, err
		}
		if err := s.db.GuardTimers(ctx, c, part); err != nil {
			return nil, nil, err
		}
		ts, err := s.CompleteAll(ctx, c, rows, hashes)
		if err != nil {
			return nil, nil, err
		}
		for i := range ts {
			byID[ts[i].ID] = &ts[i]
			if rows[i].Replan == ReplanCalendar {
				calendar[ts[i].ID] = true
			}
		}
	}
	return byID, calendar, nil
}
