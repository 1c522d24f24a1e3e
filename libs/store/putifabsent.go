package store

import "context"

// IdempotencyKeys keep what callers' idempotency keys stood for, of calls other than Create.
type IdempotencyKeys interface {
	// PutIfAbsent keeps a value under a key of an app, and returns the value that was kept first
	// under it. It forgets as Create forgets its keys, which are in the same place: a key begins
	// with a byte that none of those begins with. Repeating it is harmless.
	PutIfAbsent(ctx context.Context, app, key string, value int64) (kept int64, err error)
}
