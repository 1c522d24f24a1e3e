package engine

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// DefaultTimeout bounds a call whose context has no earlier deadline.
const DefaultTimeout = 10 * time.Second

// Runner is a connection, a transaction or a pool.
type Runner interface {
	sqlx.QueryerContext
	sqlx.ExecerContext
}

type onceKey struct{}

// Once returns a context for a statement whose text hardly comes again. An engine that keeps
// prepared statements does not keep it.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

// IsOnce reports whether the context is one of Once.
func IsOnce(ctx context.Context) bool { return ctx.Value(onceKey{}) != nil }

// Work is what a call does with a connection.
type Work = func(ctx context.Context, c Runner) error

// Engine runs statements on a database. It is safe for concurrent use.
type Engine interface {
	// Transact runs fn in one transaction and commits it. It rolls back if fn returns an error.
	Transact(ctx context.Context, fn Work) error
	// Autocommit runs fn, which is one statement, outside a transaction. The database commits it at
	// once.
	Autocommit(ctx context.Context, fn Work) error
	// Urgent is Autocommit for leases and session renewals, which must not wait behind batches.
	Urgent(ctx context.Context, fn Work) error
	// Reader reads what is committed.
	Reader() sqlx.QueryerContext
	// Capabilities returns what the server can do. In Work they are those of the server that runs
	// it.
	Capabilities() Capabilities
	Close() error
}
