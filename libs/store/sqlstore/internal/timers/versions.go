package timers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Version is a stored version of a definition.
type Version struct {
	Definition timer.Definition
	hash       []byte
}

// Versions returns the definitions that exist. They never change, so it needs no lock. One that cannot
// be read is [timer.Definition.Unreadable], and has no hash: an edit replaces it, whatever it was.
func (s *Rows) Versions(
	ctx context.Context, c sqlx.QueryerContext, keys []store.VersionKey,
) (map[store.VersionKey]*Version, error) {
	out := make(map[store.VersionKey]*Version, len(keys))
	for part := range sqldb.Batches(keys) {
		q := sqldb.Stmt(
			"SELECT timer_id,version,hash,definition FROM timer_versions WHERE (timer_id,version) IN (" + s.db.Dialect.Tuples,
		)
		for i, k := range part {
			q.Row(i == 0, int64(k.Timer), int64(k.Version))
		}
		rows := make([]struct {
			Timer      int64  `db:"timer_id"`
			Version    int32  `db:"version"`
			Hash       []byte `db:"hash"`
			Definition []byte `db:"definition"`
		}, 0, len(part))
		if err := s.db.SelectAll(ctx, c, &rows, q.Add(")")); err != nil {
			return nil, err
		}
		for _, r := range rows {
			v := &Version{hash: r.Hash}
			if err := json.Unmarshal(r.Definition, &v.Definition); err != nil {
				v = &Version{Definition: timer.Definition{Unreadable: fmt.Sprintf(
					"reading version %d of timer %d: %v", r.Version, r.Timer, err,
				)}}
			}
			out[store.VersionKey{Timer: timer.ID(r.Timer), Version: r.Version}] = v
		}
	}
	return out, nil
}

// EncodeDefinition returns the stored form of a definition and its hash. The form is canonical: struct fields
// are in order, map keys are sorted, and instants are in UTC. Definitions with the same meaning
// therefore have the same hash. A definition that could not be read has no form: the store would lose
// what it has of it.
func EncodeDefinition(d timer.Definition) (text, hash []byte, err error) {
	if d.Unreadable != "" {
		return nil, nil, fmt.Errorf("encoding the definition: %s", d.Unreadable)
	}
	for _, at := range []**time.Time{&d.Schedule.At, &d.Schedule.Anchor, &d.Schedule.StartAt, &d.Schedule.EndAt} {
		if *at != nil {
			utc := (*at).UTC()
			*at = &utc
		}
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

// AddedVersion is a version to insert.
type AddedVersion struct {
	store.VersionKey

	// the timer's present version has the same plan, so its open fires are this version's, too
	SamePlan   bool
	Hash, Text []byte
}

// InsertVersions inserts versions of timers that the caller has locked or inserted.
func (s *Rows) InsertVersions(
	ctx context.Context,
	c sqldb.Runner,
	rest []AddedVersion,
	nowMS int64,
) error {
	const into = "INSERT INTO timer_versions " +
		"(timer_id,version,hash,definition,created_ms,plan_version) VALUES "
	for len(rest) > 0 {
		n, size := 0, 0
		for ; n < len(rest) && (n == 0 || size+len(rest[n].Text) <= sqldb.MaxStatementBytes); n++ {
			size += len(rest[n].Text)
		}
		for q, part := range sqldb.InsertBlocks(s.db.Dialect, rest[:n], into) {
			q.Prepared = q.Prepared && !slices.ContainsFunc(part, AddedVersion.hasSamePlan)
			for i := range part {
				addVersion(q, i == 0, &part[i], nowMS)
			}
			if _, err := s.db.Exec(ctx, c, q); err != nil {
				return err
			}
		}
		rest = rest[n:]
	}
	return nil
}

func (v AddedVersion) hasSamePlan() bool { return v.SamePlan }

func addVersion(q *sqldb.Statement, first bool, v *AddedVersion, nowMS int64) {
	q.Open(first).Ints(int64(v.Timer), int64(v.Version)).Add(",").Bind(v.Hash).Add(",").
		Bind(v.Text).Add(",").Int(nowMS)
	if v.SamePlan {
		q.Add(",(SELECT plan_version FROM timers WHERE id=").Int(int64(v.Timer)).Add("))")
	} else {
		q.Add(",").Int(int64(v.Version)).Add(")")
	}
}

// CopyVersions inserts for each version the next one, with the same definition.
func (s *Rows) CopyVersions(
	ctx context.Context,
	c sqldb.Runner,
	keys []store.VersionKey,
	nowMS int64,
) error {
	for part := range sqldb.Batches(keys) {
		q := sqldb.Stmt(
			"INSERT INTO timer_versions (timer_id,version,hash,definition,created_ms,plan_version) SELECT timer_id,version+1,hash,definition,",
		).
			Int(nowMS).
			Add(",version+1 FROM timer_versions WHERE (timer_id,version) IN (" + s.db.Dialect.Tuples)
		for i, k := range part {
			q.Row(i == 0, int64(k.Timer), int64(k.Version))
		}
		if _, err := s.db.Exec(ctx, c, q.Add(")")); err != nil {
			return err
		}
	}
	return nil
}

// VersionTimes returns when versions came into force. This never changes, so it needs no lock.
func (s *Timers) VersionTimes(
	ctx context.Context,
	keys []store.VersionKey,
) (times map[store.VersionKey]int64, err error) {
	times = make(map[store.VersionKey]int64, len(keys))
	err = s.db.Read(
		ctx,
		"reading versions",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			for part := range sqldb.Batches(keys) {
				q := sqldb.Stmt(
					"SELECT timer_id,version,created_ms FROM timer_versions WHERE (timer_id,version) IN (" + s.db.Dialect.Tuples,
				)
				for i, k := range part {
					q.Row(i == 0, int64(k.Timer), int64(k.Version))
				}
				var rows []struct {
					Timer            int64 `db:"timer_id"`
					Version          int32 `db:"version"`
					VersionCreatedMS int64 `db:"created_ms"`
				}
				if err := s.db.SelectAll(ctx, c, &rows, q.Add(")")); err != nil {
					return err
				}
				for _, r := range rows {
					times[store.VersionKey{Timer: timer.ID(r.Timer), Version: r.Version}] = r.VersionCreatedMS
				}
			}
			return nil
		},
	)
	return times, err
}

// VersionAt reads what never changes, so it needs no lock.
func (s *Timers) VersionAt(ctx context.Context, f timer.Fire) (version int32, err error) {
	version = f.Version
	err = s.db.Read(
		ctx,
		"reading versions",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			var rows []struct {
				Version int32 `db:"version"`
				Plan    int32 `db:"plan"`
			}
			q := sqldb.Stmt(
				"SELECT version,plan_version AS plan FROM timer_versions WHERE timer_id=",
			).Int(int64(f.Timer)).
				Add(" AND version>").
				Int(int64(f.Version)).
				Add(" AND created_ms<").
				Int(f.DueMS).
				Add(" ORDER BY version DESC LIMIT 1")
			if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
				return err
			}
			if len(rows) > 0 && rows[0].Plan <= f.Version {
				version = rows[0].Version
			}
			return nil
		},
	)
	return version, err
}

// TakenBack returns those of the fires that the plan of a later version has taken back: they are due
// after that version came into force. Of a fire in untilMS only the versions up to then count. The
// caller has the timers' rows locked.
func (s *Rows) TakenBack(
	ctx context.Context,
	c sqlx.QueryerContext,
	fires []timer.Fire,
	untilMS map[timer.FireID]int64,
) (map[timer.FireID]bool, error) {
	if len(fires) == 0 {
		return nil, nil //nolint:nilnil // a nil map is an empty one
	}
	var ids []timer.ID
	first := fires[0].Version
	for i := range fires {
		ids, first = append(ids, fires[i].Timer), min(first, fires[i].Version)
	}
	slices.Sort(ids)
	type plan struct {
		Timer     int64 `db:"timer_id"`
		Version   int32 `db:"version"`
		CreatedMS int64 `db:"created_ms"`
	}
	plans := map[timer.ID][]plan{}
	for part := range sqldb.Batches(slices.Compact(ids)) {
		var rows []plan
		q := sqldb.Stmt("SELECT timer_id,version,created_ms FROM timer_versions WHERE timer_id").
			IDList(part).
			Add(" AND version>").Bind(first).Add(" AND plan_version=version")
		if err := s.db.SelectAll(ctx, c, &rows, q); err != nil {
			return nil, err
		}
		for _, r := range rows {
			plans[timer.ID(r.Timer)] = append(plans[timer.ID(r.Timer)], r)
		}
	}
	back := map[timer.FireID]bool{}
	for i := range fires {
		f := &fires[i]
		until, bounded := untilMS[f.FireID]
		back[f.FireID] = slices.ContainsFunc(plans[f.Timer], func(p plan) bool {
			return p.Version > f.Version && p.CreatedMS < f.DueMS &&
				(!bounded || p.CreatedMS <= until)
		})
	}
	return back, nil
}

// SamePlan reports whether two definitions have the same due instants and misfire policy. A change
// from one to the other needs no replan.
func SamePlan(a, b timer.Definition) (bool, error) {
	var texts [2][]byte
	for i, d := range []timer.Definition{a, b} {
		var err error
		if texts[i], _, err = EncodeDefinition(
			timer.Definition{Schedule: d.Schedule, Misfire: d.Misfire},
		); err != nil {
			return false, err
		}
	}
	return bytes.Equal(texts[0], texts[1]), nil
}
