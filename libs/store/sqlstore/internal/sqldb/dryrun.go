package sqldb

import (
	"context"
	"errors"
)

// errDryRun rolls back the transaction of a dry run that has succeeded.
var errDryRun = errors.New("dry run")

type firstKey struct{}

// WithFirst returns a context whose dry run does first in its transaction, before the write itself:
// what a write would have committed before it.
func WithFirst(ctx context.Context, first Work) context.Context {
	return context.WithValue(ctx, firstKey{}, first)
}

// dryRun is fn without a commit. It takes the locks of the write, until it is rolled back. So the
// answer is that of a write at this instant, including every refusal. Only what a commit itself
// reports is missing: a full disk, or a conflict between nodes of a cluster.
func (s *DB) dryRun(fn Work) Work {
	return func(ctx context.Context, c Runner) error {
		if first, ok := ctx.Value(firstKey{}).(Work); ok {
			if err := first(ctx, c); err != nil {
				return err
			}
		}
		if err := fn(ctx, c); err != nil {
			return err
		}
		return errDryRun
	}
}
