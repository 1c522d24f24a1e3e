package store

import "context"

// IdempotencyKeys keeps the results of idempotency keys for calls other than Create.
type IdempotencyKeys interface {
	// PutIfAbsent stores a value under a key of an app, unless the key has one, and returns the
	// stored value. Keys expire like those of Create, in the same table. A key begins with a byte
	// with which no key of Create begins. It may be repeated. An unknown app is not_found.
	PutIfAbsent(ctx context.Context, app, key string, value int64) (kept int64, err error)
}
