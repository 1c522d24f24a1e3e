package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A part ends with the first row beyond one of these limits. A part is loaded in one transaction.
const (
	maxPartRows  = 20_000
	maxPartBytes = 8 << 20 // before compression
)

// progressRows is how many rows there are between two calls of Progress.
const progressRows = 1000

// Options are the settings of Write, Verify and Restore.
type Options struct {
	// Version of this program, for the manifest.
	Version string
	// Progress is called now and then with the number of rows that are done, of how many. total is
	// -1 while it is not known. Restore counts a row when it is verified, and when it is loaded. nil:
	// not called.
	Progress func(done, total int64)
	// Check is called by Restore when all rows are there, and before any service can use the store.
	// With an error the restore stops, and continues when it is repeated. nil: nothing more is
	// checked.
	Check func(ctx context.Context) error
	// PartRows is the number of rows of a part; 0 is the default. Tests set it lower.
	PartRows int64
}

// progress counts rows.
type progress struct {
	call        func(done, total int64)
	done, total int64
}

func (o *Options) progress(total int64) *progress {
	return &progress{call: o.Progress, total: total}
}

func (p *progress) add(n int64) {
	before := p.done / progressRows
	p.done += n
	if p.call != nil && (p.done/progressRows > before || p.done == p.total) {
		p.call(p.done, p.total)
	}
}

// Write writes a backup into a directory, which it creates. A directory with a backup that was not
// completed is used again, and the backup begins anew: the snapshot of the earlier one ended with
// its connection, and parts of two snapshots do not fit together.
func Write(ctx context.Context, src Source, dir string, o Options) (_ *Manifest, err error) {
	d, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	info, err := src.Info(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	tables, err := src.Tables(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	m := &Manifest{
		Format:   Format,
		Carillon: o.Version,
		Database: info.Database,
		Schema:   info.Schema,
		At:       info.At.UTC().Truncate(time.Millisecond),
	}
	p := o.progress(-1)
	for i := range tables {
		w := &tableWriter{
			directory: d, progress: p, maxRows: cmp.Or(o.PartRows, maxPartRows),
			parts: Parts{Table: tables[i], Parts: []Part{}},
		}
		if err := w.write(ctx, src); err != nil {
			return nil, err
		}
		m.Tables = append(m.Tables, w.parts)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("writing the backup: %w", context.Cause(ctx))
	}
	return m, d.complete(m)
}

// tableWriter writes the parts of one table.
type tableWriter struct {
	directory *directory
	progress  *progress
	maxRows   int64
	parts     Parts
	part      *partWriter // nil: no part has begun
}

func (w *tableWriter) write(ctx context.Context, src Source) error {
	err := src.ReadTable(ctx, w.parts.Name, w.add)
	if err == nil && w.part != nil {
		err = w.finish()
	}
	if w.part != nil {
		w.part.abort()
	}
	return err
}

func (w *tableWriter) add(row []any) (err error) {
	if len(row) != len(w.parts.Columns) {
		return fmt.Errorf(
			"a row of table %s has %d columns, not %d",
			w.parts.Name,
			len(row),
			len(w.parts.Columns),
		)
	}
	if w.part == nil {
		w.part, err = createPart(w.directory.root, w.parts.Name, len(w.parts.Parts)+1)
		if err != nil {
			return fmt.Errorf("writing the backup: %w", err)
		}
	}
	if err := w.part.add(row); err != nil {
		return err
	}
	w.progress.add(1)
	if w.part.part.Rows >= w.maxRows || w.part.plain >= maxPartBytes {
		return w.finish()
	}
	return nil
}

func (w *tableWriter) finish() error {
	p, err := w.part.finish()
	if err != nil {
		return err
	}
	w.part = nil
	w.parts.Parts = append(w.parts.Parts, p)
	w.parts.Rows += p.Rows
	return nil
}
