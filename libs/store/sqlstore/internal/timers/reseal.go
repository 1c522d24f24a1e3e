package timers

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// sealedChunk is how many versions one statement reads.
const sealedChunk = 500

// SealedVersions scans the primary key with short statements: in a large table, few versions may
// have encrypted text.
func (s *Timers) SealedVersions(
	ctx context.Context, after store.VersionKey, limit int,
) (found map[store.VersionKey]*timer.Definition, last store.VersionKey, err error) {
	found, last = map[store.VersionKey]*timer.Definition{}, after
	for at := after; ; {
		rows, err := s.sealedRows(ctx, at)
		if err != nil {
			return nil, after, err
		}
		for _, r := range rows {
			at = store.VersionKey{Timer: timer.ID(r.Timer), Version: r.Version}
			if !bytes.Contains(r.Definition, []byte(`"cs1.`)) {
				continue
			}
			d := r.decode()
			if _, n := store.MaskSealed(d); n == 0 && d.Unreadable == "" {
				continue
			}
			found[at], last = &d, at
			if len(found) >= limit {
				return found, last, nil
			}
		}
		if len(rows) < sealedChunk {
			return found, last, nil
		}
	}
}

type versionRow struct {
	Timer      int64  `db:"timer_id"`
	Version    int32  `db:"version"`
	Definition []byte `db:"definition"`
}

// decode returns the definition. One of which this release does not know each field is unreadable:
// to write it again would lose the rest.
func (r *versionRow) decode() (d timer.Definition) {
	from := json.NewDecoder(bytes.NewReader(r.Definition))
	from.DisallowUnknownFields()
	if err := from.Decode(&d); err != nil {
		return timer.Definition{Unreadable: fmt.Sprintf(
			"reading version %d of timer %d: %v (a newer release wrote it, or it is damaged)",
			r.Version, r.Timer, err,
		)}
	}
	return d
}

// sealedRows reads a chunk of versions after a position, without the definitions that contain
// nothing like encrypted text.
func (s *Timers) sealedRows(
	ctx context.Context,
	after store.VersionKey,
) (rows []versionRow, err error) {
	err = s.db.Read(
		ctx,
		"reading encrypted text",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := sqldb.Stmt(
				"SELECT timer_id,version,CASE WHEN INSTR(definition,",
			).Bind([]byte(`"cs1.`)).
				Add(")>0 THEN definition ELSE ").
				Bind([]byte{}).
				Add(" END AS definition FROM timer_versions" + s.db.Dialect.ByPrimary + " WHERE ")
			s.db.Dialect.KeyAfter(
				q,
				[]string{"timer_id", "version"},
				[]int64{int64(after.Timer), int64(after.Version)},
			)
			return s.db.SelectAll(
				ctx,
				c,
				&rows,
				q.Add(" ORDER BY timer_id,version LIMIT ").Int(sealedChunk),
			)
		},
	)
	return rows, err
}

// Reseal locks the version's row, compares everything except encrypted text, and writes definition
// and hash: S27. What this release cannot read whole stays. Encryption is deterministic, so two calls at once and a repeated call write the
// same. A create or an edit that compares the hash meanwhile sees the old or the new one.
func (s *Timers) Reseal(ctx context.Context, k store.VersionKey, d timer.Definition) error {
	text, hash, err := EncodeDefinition(d)
	if err != nil {
		return err
	}
	want, err := blankText(d)
	if err != nil {
		return err
	}
	return s.db.Write(
		ctx,
		"re-encrypting a definition",
		func(ctx context.Context, c sqldb.Runner) error {
			at := func(q *sqldb.Statement) *sqldb.Statement {
				return q.Add(" WHERE timer_id=").
					Int(int64(k.Timer)).
					Add(" AND version=").
					Int(int64(k.Version))
			}
			var row versionRow
			err := s.db.SelectOne(
				ctx,
				c,
				&row,
				at(
					sqldb.Stmt("SELECT timer_id,version,definition FROM timer_versions"),
				).Add(s.db.Dialect.ForUpdate),
			)
			if errors.Is(err, sql.ErrNoRows) {
				return timer.NotFound("version", fmt.Sprintf("%d of timer %d", k.Version, k.Timer))
			}
			if err != nil {
				return err
			}
			had := row.decode()
			if have, err := blankText(had); err != nil || !bytes.Equal(have, want) {
				return errors.Join(
					err,
					timer.Invalid("definition", "it differs in more than encrypted text"),
				)
			}
			_, err = s.db.Exec(
				ctx,
				c,
				at(
					sqldb.Stmt("UPDATE timer_versions SET hash=").
						Bind(hash).
						Add(",definition=").
						Bind(text),
				),
			)
			return err
		},
	)
}

// blankText returns the canonical text of a definition with all encrypted texts blanked.
func blankText(d timer.Definition) ([]byte, error) {
	d, _ = store.MaskSealed(d)
	text, _, err := EncodeDefinition(d)
	return text, err
}
