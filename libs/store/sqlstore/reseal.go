package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// sealedChunk is how many versions one statement looks through.
const sealedChunk = 500

// SealedVersions walks the primary key by short statements: in a large table few versions may hold
// anything sealed.
func (s *Store) SealedVersions(
	ctx context.Context, after store.VersionKey, limit int,
) (found map[store.VersionKey]timer.Definition, last store.VersionKey, err error) {
	found, last = map[store.VersionKey]timer.Definition{}, after
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
			var d timer.Definition
			if err := json.Unmarshal(r.Definition, &d); err != nil {
				return nil, after, fmt.Errorf(
					"reading version %d of timer %d: %w",
					r.Version,
					r.Timer,
					err,
				)
			}
			if _, n := store.MaskSealed(d); n == 0 {
				continue
			}
			found[at], last = d, at
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

// sealedRows reads a chunk of versions behind a position. The definition is left out of those that
// hold nothing that looks like sealed text.
func (s *Store) sealedRows(
	ctx context.Context,
	after store.VersionKey,
) (rows []versionRow, err error) {
	err = s.read(
		ctx,
		"looking for sealed text",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := stmt(
				"SELECT timer_id,version,CASE WHEN INSTR(definition,",
			).bind([]byte(`"cs1.`)).
				add(")>0 THEN definition ELSE ").
				bind([]byte{}).
				add(" END AS definition FROM timer_versions" + s.dialect.byPrimary + " WHERE ")
			s.dialect.later(
				q,
				[]string{"timer_id", "version"},
				[]int64{int64(after.Timer), int64(after.Version)},
			)
			return s.selectAll(
				ctx,
				c,
				&rows,
				q.add(" ORDER BY timer_id,version LIMIT ").int(sealedChunk),
			)
		},
	)
	return rows, err
}

// Reseal locks the version's row, compares all that is not sealed, and writes text and hash: S27.
// Two at once write the same, for sealing is deterministic; repeated, it writes the same again. A
// create or an edit that compares the hash at the same time sees the old or the new one.
func (s *Store) Reseal(ctx context.Context, k store.VersionKey, d timer.Definition) error {
	text, hash, err := encode(d)
	if err != nil {
		return err
	}
	want, err := blankText(d)
	if err != nil {
		return err
	}
	return s.write(ctx, "resealing a definition", func(ctx context.Context, c runner) error {
		at := func(q *statement) *statement {
			return q.add(" WHERE timer_id=").
				int(int64(k.Timer)).
				add(" AND version=").
				int(int64(k.Version))
		}
		var row versionRow
		err := s.selectOne(
			ctx,
			c,
			&row,
			at(
				stmt("SELECT timer_id,version,definition FROM timer_versions"),
			).add(s.dialect.forUpdate),
		)
		if errors.Is(err, sql.ErrNoRows) {
			return timer.NotFound("version", fmt.Sprintf("%d of timer %d", k.Version, k.Timer))
		}
		if err != nil {
			return err
		}
		var had timer.Definition
		if err := json.Unmarshal(row.Definition, &had); err != nil {
			return fmt.Errorf("reading version %d of timer %d: %w", k.Version, k.Timer, err)
		}
		if have, err := blankText(had); err != nil || !bytes.Equal(have, want) {
			return errors.Join(
				err,
				timer.Invalid("definition", "it differs in more than sealed text"),
			)
		}
		_, err = s.exec(
			ctx,
			c,
			at(stmt("UPDATE timer_versions SET hash=").bind(hash).add(",definition=").bind(text)),
		)
		return err
	})
}

// blankText is the canonical text of a definition with every sealed text blanked.
func blankText(d timer.Definition) ([]byte, error) {
	d, _ = store.MaskSealed(d)
	text, _, err := encode(d)
	return text, err
}
