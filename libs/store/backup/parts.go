package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// partWriter writes one part.
type partWriter struct {
	part  Part
	plain int64 // bytes before compression

	file     *os.File
	hash     hash.Hash
	buffer   *bufio.Writer
	compress *zstd.Encoder
	encode   *json.Encoder
}

// createPart creates the file of a part. It must not exist.
func createPart(root *os.Root, table string, number int) (*partWriter, error) {
	w := &partWriter{hash: sha256.New()}
	w.part.File = fmt.Sprintf("%s-%06d.ndjson.zst", table, number)
	var err error
	w.file, err = root.OpenFile(w.part.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	w.buffer = bufio.NewWriter(io.MultiWriter(w.file, w.hash, (*counter)(&w.part.Bytes)))
	w.compress, err = zstd.NewWriter(w.buffer, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compressing: %w", err), w.file.Close())
	}
	w.encode = json.NewEncoder(io.MultiWriter(w.compress, (*counter)(&w.plain)))
	w.encode.SetEscapeHTML(false)
	return w, nil
}

// add writes a row, and replaces its values.
func (w *partWriter) add(row []any) error {
	if err := encodeRow(row); err != nil {
		return err
	}
	if err := w.encode.Encode(row); err != nil {
		return fmt.Errorf("writing %s: %w", w.part.File, err)
	}
	w.part.Rows++
	return nil
}

// finish brings the part to disk.
func (w *partWriter) finish() (Part, error) {
	err := errors.Join(w.compress.Close(), w.buffer.Flush())
	if err == nil {
		err = w.file.Sync()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return Part{}, fmt.Errorf("writing %s: %w", w.part.File, err)
	}
	w.part.SHA256 = hex.EncodeToString(w.hash.Sum(nil))
	return w.part, nil
}

// abort closes the file of a part that is not finished.
func (w *partWriter) abort() { _, _ = w.compress.Close(), w.file.Close() }

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// DamagedError means that a file is not what was written.
type DamagedError struct{ File, Why string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %s: use another backup", e.File, e.Why)
}

// readPart checks the hash of a part, then calls each with its rows.
func readPart(root *os.Root, p *Part, columns int, each func(row []any) error) error {
	f, err := root.Open(p.File)
	if err != nil {
		return &DamagedError{p.File, err.Error()}
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("reading %s: %w", p.File, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.SHA256 {
		return &DamagedError{p.File, "its SHA-256 is not that of the manifest"}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s: %w", p.File, err)
	}
	plain, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", p.File, err)
	}
	defer plain.Close()
	decode := json.NewDecoder(plain)
	decode.UseNumber()
	var rows int64
	for ; ; rows++ {
		var row []any
		err := decode.Decode(&row)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && len(row) != columns {
			err = fmt.Errorf("it has %d columns, not %d", len(row), columns)
		}
		if err == nil {
			err = decodeRow(row)
		}
		if err != nil {
			return &DamagedError{p.File, fmt.Sprintf("row %d: %v", rows+1, err)}
		}
		if err := each(row); err != nil {
			return err
		}
	}
	if rows != p.Rows {
		return &DamagedError{p.File, fmt.Sprintf("it has %d rows, not %d", rows, p.Rows)}
	}
	return nil
}
