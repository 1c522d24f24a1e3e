package sqlstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// The statuses as they are stored. An active timer's is the only one that the expansion's index is asked for.
const (
	rowInactive = 0
	rowActive   = 1
	rowDeleted  = 2
)

func statusToRow(s timer.Status) int64 {
	switch s {
	case timer.StatusActive:
		return rowActive
	case timer.StatusDeleted:
		return rowDeleted
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
	default:
		return timer.StatusInactive
	}
}

const timerColumns = "id,app_id,name,status,version,active_since_ms,active_epoch,next_due_ms,expand_at_ms,fires_made," +
	"created_ms,updated_ms"

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
	FiresMade     int64  `db:"fires_made"`
	CreatedMS     int64  `db:"created_ms"`
	UpdatedMS     int64  `db:"updated_ms"`
}

func (r timerRow) timer(app string) timer.Timer {
	return timer.Timer{
		ID: timer.ID(r.ID), App: app, AppID: r.AppID, Name: r.Name, Status: statusFromRow(r.Status), Version: r.Version,
		ActiveSinceMS: r.ActiveSinceMS, ActiveEpoch: r.ActiveEpoch, NextDueMS: r.NextDueMS, ExpandAtMS: r.ExpandAtMS,
		FiresMade: r.FiresMade, CreatedMS: r.CreatedMS, UpdatedMS: r.UpdatedMS,
	}
}

// timers makes whole timers of rows: with the names of their apps and their definitions. hashes may be nil.
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
	return out, nil
}

type version struct {
	definition timer.Definition
	hash       []byte
}

// readVersions returns the definitions that exist. They never change, so no lock is needed.
func (s *Store) readVersions(
	ctx context.Context, c sqlx.QueryerContext, keys []store.VersionKey,
) (map[store.VersionKey]version, error) {
	out := make(map[store.VersionKey]version, len(keys))
	for part := range batches(keys) {
		q := stmt("SELECT timer_id,version,hash,definition FROM timer_versions WHERE (timer_id,version) IN (" + s.dialect.tuples)
		for i, k := range part {
			q.row(i == 0, int64(k.Timer), int64(k.Version))
		}
		var rows []struct {
			Timer      int64  `db:"timer_id"`
			Version    int32  `db:"version"`
			Hash       []byte `db:"hash"`
			Definition []byte `db:"definition"`
		}
		if err := s.selectAll(ctx, c, &rows, q.add(")")); err != nil {
			return nil, err
		}
		for _, r := range rows {
			v := version{hash: r.Hash}
			if err := json.Unmarshal(r.Definition, &v.definition); err != nil {
				return nil, fmt.Errorf("reading version %d of timer %d: %w", r.Version, r.Timer, err)
			}
			out[store.VersionKey{Timer: timer.ID(r.Timer), Version: r.Version}] = v
		}
	}
	return out, nil
}

// encode returns a definition's stored form and its hash. The form is canonical: struct fields come in their order, map keys sorted,
// and the instant in UTC, so that definitions which mean the same have the same hash.
func encode(d timer.Definition) (text, hash []byte, err error) {
	if d.Schedule.At != nil {
		at := d.Schedule.At.UTC()
		d.Schedule.At = &at
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, nil, fmt.Errorf("encoding the definition: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), sum[:], nil
}

// saveTimers writes columns of timers whose rows the caller has locked, all in one statement. The INSERT inserts nothing, for every row
// is there: it is the one form of "update many rows, each with its own values" that both databases take. live_name is
// NULL in what would be inserted, so that it collides with nothing; only a deleted timer's becomes NULL.
func (s *Store) saveTimers(ctx context.Context, c runner, ts []timer.Timer, columns ...string) error {
	slices.SortFunc(ts, func(a, b timer.Timer) int { return int(a.ID - b.ID) })
	for part := range batches(ts) {
		q := stmt("INSERT INTO timers (" + timerColumns + ",live_name,maker) VALUES ")
		for i := range part {
			q.timerRow(i == 0, &part[i]).add(",NULL,0)")
		}
		q.add(s.dialect.set("id", columns...))
		q.add(",live_name=CASE WHEN " + s.dialect.value("status") + "=2 THEN NULL ELSE timers.live_name END")
		if _, err := s.exec(ctx, c, q); err != nil {
			return err
		}
	}
	return nil
}

// timerRow adds the values of timerColumns and leaves the row open.
func (q *statement) timerRow(first bool, t *timer.Timer) *statement {
	return q.open(first).ints(int64(t.ID), t.AppID).add(",").bind(t.Name).add(",").
		ints(statusToRow(t.Status), int64(t.Version), t.ActiveSinceMS, t.ActiveEpoch, t.NextDueMS, t.ExpandAtMS, t.FiresMade,
			t.CreatedMS, t.UpdatedMS)
}
