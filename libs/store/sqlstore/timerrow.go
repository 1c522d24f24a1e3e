package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The statuses as they are stored. An active timer's is the only one that the expansion's index is
// asked for.
const (
	rowInactive = 0
	rowActive   = 1
	rowDeleted  = 2
	rowPaused   = 3 // the release before takes it for inactive
)

// What a timer's column replan says.
const (
	replanNothing = 0
	// edited while it was not active: what is expanded has an older version already.
	replanEdited   = 1
	replanCalendar = 2 // a calendar or a time zone changed: what is expanded has this version
)

func statusToRow(s timer.Status) int64 {
	switch s {
	case timer.StatusActive:
		return rowActive
	case timer.StatusDeleted:
		return rowDeleted
	case timer.StatusPaused:
		return rowPaused
	default:
		return rowInactive
	}
}

func statusFromRow(n int64) timer.Status {
	switch n {
	case rowActive:
		return timer.StatusActive
	case rowDeleted:
		return timer.StatusDeleted
	case rowPaused:
		return timer.StatusPaused
	default:
		return timer.StatusInactive
	}
}

const timerColumns = "id,app_id,name,status,version,active_since_ms,active_epoch,next_due_ms,expand_at_ms,fires_created," +
	"anchor_ms,version_ms,replan,inactive_since_ms,paused_until_ms,created_ms,updated_ms,pause_reason"

// timerRow is a row of timers.
type timerRow struct {
	ID            int64  `db:"id"`
	AppID         int64  `db:"app_id"`
	Name          string `db:"name"`
	Status        int64  `db:"status"`
	Version       int32  `db:"version"`
	ActiveSinceMS int64  `db:"active_since_ms"`
	ActiveEpoch   int64  `db:"active_epoch"`
	NextDueMS     int64  `db:"next_due_ms"`
	ExpandAtMS    int64  `db:"expand_at_ms"`
	FiresCreated  int64  `db:"fires_created"`
	AnchorMS      int64  `db:"anchor_ms"`
	VersionMS     int64  `db:"version_ms"`
	Replan        int64  `db:"replan"`
	InactiveSince int64  `db:"inactive_since_ms"`
	PausedUntilMS int64  `db:"paused_until_ms"`
	CreatedMS     int64  `db:"created_ms"`
	UpdatedMS     int64  `db:"updated_ms"`
	PauseReason   string `db:"pause_reason"`
}

// timer fills in what the release before left at 0: it counted from the creation, and knew one
// version.
func (r timerRow) timer(app string) timer.Timer {
	if r.AnchorMS == 0 && r.ActiveEpoch > 0 {
		r.AnchorMS = r.CreatedMS
	}
	if r.VersionMS == 0 {
		r.VersionMS = r.CreatedMS
	}
	return timer.Timer{
		ID: timer.ID(
			r.ID,
		),
		App:             app,
		AppID:           r.AppID,
		Name:            r.Name,
		Status:          statusFromRow(r.Status),
		Version:         r.Version,
		ActiveSinceMS:   r.ActiveSinceMS,
		ActiveEpoch:     r.ActiveEpoch,
		NextDueMS:       r.NextDueMS,
		ExpandAtMS:      r.ExpandAtMS,
		FiresCreated:    r.FiresCreated,
		AnchorMS:        r.AnchorMS,
		VersionMS:       r.VersionMS,
		Replan:          r.Replan != replanNothing,
		InactiveSinceMS: r.InactiveSince,
		PauseReason:     r.PauseReason,
		PausedUntilMS:   r.PausedUntilMS,
		CreatedMS:       r.CreatedMS,
		UpdatedMS:       r.UpdatedMS,
	}
}

// timers makes whole timers of rows: with the names of their apps, their definitions and their
// calendars. hashes may be nil.
func (s *Store) timers(
	ctx context.Context, c sqlx.QueryerContext, rows []timerRow, hashes map[timer.ID][]byte,
) ([]timer.Timer, error) {
	keys := make([]store.VersionKey, len(rows))
	appIDs := make([]int64, len(rows))
	for i, r := range rows {
		keys[i] = store.VersionKey{Timer: timer.ID(r.ID), Version: r.Version}
		appIDs[i] = r.AppID
	}
	names, err := s.appNames(ctx, c, appIDs)
	if err != nil {
		return nil, err
	}
	defs, err := s.readVersions(ctx, c, keys)
	if err != nil {
		return nil, err
	}
	out := make([]timer.Timer, len(rows))
	for i, r := range rows {
		v, ok := defs[keys[i]]
		if !ok {
			return nil, fmt.Errorf("timer %d has no definition of version %d", r.ID, r.Version)
		}
		out[i] = r.timer(names[r.AppID])
		out[i].Definition = v.definition
		if hashes != nil {
			hashes[out[i].ID] = v.hash
		}
	}
	return out, s.fillCalendars(ctx, c, out)
}

// saveTimers writes columns of timers whose rows the caller has locked, all in one statement. The
// INSERT inserts nothing, for every row is there: it is the one form of "update many rows, each
// with its own values" that both databases take. live_name is NULL in what would be inserted, so
// that it collides with nothing; only a deleted timer's becomes NULL.
func (s *Store) saveTimers(
	ctx context.Context,
	c runner,
	ts []timer.Timer,
	replan func(*timer.Timer) int64,
	columns ...string,
) error {
	slices.SortFunc(ts, func(a, b timer.Timer) int { return int(a.ID - b.ID) })
	for part := range batches(ts) {
		q := stmt("INSERT INTO timers (" + timerColumns + ",live_name,maker) VALUES ")
		for i := range part {
			q.timerRow(i == 0, &part[i], replan(&part[i])).add(",NULL,0)")
		}
		q.add(s.dialect.set("id", columns...))
		q.add(
			",live_name=CASE WHEN " + s.dialect.value(
				"status",
			) + "=2 THEN NULL ELSE timers.live_name END",
		)
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// timerRow adds the values of timerColumns and leaves the row open.
func (q *statement) timerRow(first bool, t *timer.Timer, replan int64) *statement {
	return q.open(first).ints(int64(t.ID), t.AppID).add(",").bind(t.Name).add(",").
		ints(statusToRow(t.Status), int64(t.Version), t.ActiveSinceMS, t.ActiveEpoch, t.NextDueMS, t.ExpandAtMS, t.FiresCreated,
			t.AnchorMS, t.VersionMS, replan, t.InactiveSinceMS, t.PausedUntilMS, t.CreatedMS, t.UpdatedMS).
		add(",").bind(clip(t.PauseReason, timer.MaxReasonLen))
}

// setEach writes columns of rows of timers that the caller has locked, each row with its own
// numbers.
func (s *Store) setEach(
	ctx context.Context,
	c runner,
	ids []timer.ID,
	columns []string,
	value func(id timer.ID, column int) int64,
) error {
	slices.Sort(ids)
	for part := range batches(ids) {
		q := stmt("UPDATE timers" + s.dialect.byPrimary + " SET ")
		for n, column := range columns {
			if n > 0 {
				q.add(",")
			}
			q.add(column + "=CASE id")
			for _, id := range part {
				q.add(" WHEN ").int(int64(id)).add(" THEN ").int(value(id, n))
			}
			q.add(" END")
		}
		if _, err := s.exec(ctx, c, q.add(" WHERE id").idList(part)); err != nil {
			return err
		}
	}
	return nil
}
