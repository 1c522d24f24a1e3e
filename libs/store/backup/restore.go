package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// ErrNotMigrated means that a restore is complete, but that its tables are not those of this release.
var ErrNotMigrated = errors.New(
	"the restore is complete, but its tables are not migrated: run carillon setup, or start the services",
)

// Read reads the manifest of a backup. It says nothing about the parts.
func Read(dir string) (_ *Manifest, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the backup: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	m, _, err := readManifest(root)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return m, nil
}

// Verify reads every part of a backup, and compares it with the manifest.
func Verify(ctx context.Context, dir string, o Options) (_ *Manifest, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the backup: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	m, _, err := readManifest(root)
	if err != nil {
		return nil, fmt.Errorf("verifying %s: %w", dir, err)
	}
	return m, verify(ctx, root, dir, m, o.progress(m.Rows()))
}

// verify reads all parts.
func verify(ctx context.Context, root *os.Root, dir string, m *Manifest, p *progress) error {
	for i := range m.Tables {
		t := &m.Tables[i]
		for j := range t.Parts {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("verifying %s: %w", dir, context.Cause(ctx))
			}
			err := readPart(root, &t.Parts[j], len(t.Columns), func([]any) error { return nil })
			if err != nil {
				return fmt.Errorf("verifying %s: %w", dir, err)
			}
			p.add(t.Parts[j].Rows)
		}
	}
	return nil
}

// Restore loads a backup into an empty store, after it has verified all parts. A restore that was
// interrupted continues where it was: the parts that are there are not loaded again. It closes the
// store to services before anything else, so that none starts with an empty store meanwhile, or
// after a restore of a damaged backup. Another backup may then be restored instead.
//
// Two restores of one backup into one store at once share the work: of each part, one loads the
// rows.
func Restore(ctx context.Context, dir string, t Target, o Options) (_ *Manifest, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the backup: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	m, id, err := readManifest(root)
	if err != nil {
		return nil, fmt.Errorf("verifying %s: %w", dir, err)
	}
	loaded, err := t.Begin(ctx, id, m)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	p := o.progress(2 * m.Rows()) // each is verified, then loaded
	if err := verify(ctx, root, dir, m, p); err != nil {
		return nil, err
	}
	for i := range m.Tables {
		for j := range m.Tables[i].Parts {
			part := &m.Tables[i].Parts[j]
			if !loaded[part.File] {
				if err := load(ctx, root, t, &m.Tables[i], part); err != nil {
					return nil, err
				}
			}
			p.add(part.Rows)
		}
	}
	if o.Check != nil {
		if err := o.Check(ctx); err != nil {
			return nil, err
		}
	}
	return m, t.Finish(ctx, m) //nolint:wrapcheck // it says what it was doing
}

func load(ctx context.Context, root *os.Root, t Target, table *Parts, part *Part) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("restoring %s: %w", part.File, context.Cause(ctx))
	}
	rows := make([][]any, 0, min(part.Rows, maxPartRows))
	err := readPart(root, part, len(table.Columns), func(row []any) error {
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return err
	}
	return t.Load(ctx, &table.Table, part.File, rows)
}
