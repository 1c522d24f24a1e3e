package lookup

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
)

const (
	batchWait   = time.Millisecond
	tripTimeout = 5 * time.Second
	// maxApps is how many apps may have a round trip of a kind at once.
	maxApps = 64
	// maxSingle is how many round trips for one fire each run at once, of the rare kinds that the
	// store answers only so.
	maxSingle = 8
)

// Batched returns the options of a reader that asks the store in batches.
func Batched(concurrency int) Options {
	return Options{
		Max:         store.MaxBatch,
		Concurrency: concurrency,
		Wait:        batchWait,
		Timeout:     tripTimeout,
	}
}

// PerApp returns the options of a reader that asks the store in batches of one app.
func PerApp() Options {
	o := Batched(maxApps)
	o.PerApp = true
	return o
}

// Single returns the options of a reader that asks the store one question at a time.
func Single() Options { return Options{Concurrency: maxSingle, Timeout: tripTimeout} }

// Each answers the questions of a batch one after the other: a cache behind read answers all but
// the first of the same.
func Each[Q, A any](
	read func(context.Context, Q) (A, error),
) func(context.Context, []Q) ([]A, error) {
	return func(ctx context.Context, qs []Q) ([]A, error) {
		out := make([]A, len(qs))
		for i, q := range qs {
			var err error
			if out[i], err = read(ctx, q); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// Set is readers that close together. The zero value is empty. Readers join it before it is used.
type Set struct {
	readers []interface {
		Pending() int
		Close()
	}
}

// Open returns a new reader of the set, see New.
func Open[Q, A any](
	s *Set,
	opts Options,
	read func(context.Context, []Q) ([]A, error),
) *Reader[Q, A] {
	r := New(opts, read)
	s.readers = append(s.readers, r)
	return r
}

// Pending returns how many questions have no answer.
func (s *Set) Pending() (n int) {
	for _, r := range s.readers {
		n += r.Pending()
	}
	return n
}

// Close closes the readers, see Reader.Close.
func (s *Set) Close() {
	for _, r := range s.readers {
		r.Close()
	}
}
