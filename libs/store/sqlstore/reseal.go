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

// sealedChunk is how many versions one statement reads.
const sealedChunk = 500

// SealedVersions scans the primary key with short statements: in a large table, few versions may
// have encrypted text.
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

// sealedRows reads a chunk of versions after a position, without the definitions that contain
// nothing like encrypted text.
func (s *Store) sealedRows(
	ctx context.Context,
	after store.VersionKey,
) (rows []versionRow, err error) {
	err = s.read(
		ctx,
		"reading encrypted text",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			q := stmt(
				"SELECT timer_id,version,CASE WHEN INSTR(definition,",
			).bind([]byte(`"cs1.`)).
				add(")>0 THEN definition ELSE ").
				bind([]byte{}).
				add(" END AS definition FROM timer_versions" + s.dialect.byPrimary + " WHERE ")
			s.dialect.keyAfter(
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

// Reseal locks the version's row, compares everything except encrypted text, and writes definition
// and hash: S27. Encryption is deterministic, so two calls at once and a repeated call write the
// same. A create or an edit that compares the hash meanwhile sees the old or the new one.
func (s *Store) Reseal(ctx context.Context, k store.VersionKey, d timer.Definition) error {
	text, hash, err := encode(d)
	if err != nil {
		return err
	}
	want, err := blankText(d)
	if err != nil {
		return err
	}
	return s.write(ctx, "re-encrypting a definition", func(ctx context.Context, c runner) error {
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
				timer.Invalid("definition", "it differs in more than encrypted text"),
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

// blankText returns the canonical text of a definition with all encrypted texts blanked.
func blankText(d timer.Definition) ([]byte, error) {
	d, _ = store.MaskSealed(d)
	text, _, err := encode(d)
	return text, err
}
