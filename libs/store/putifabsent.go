package store

import (
	"context"
	"fmt"

	"github.com/carillon-timer/carillon/libs/timer"
)

// IdempotencyKeys keeps the results of idempotency keys for calls other than Create.
type IdempotencyKeys interface {
	// PutIfAbsent stores a value under a key of an app, unless the key has one, and returns the
	// stored value. Keys expire like those of Create, in the same table. A key begins with a byte
	// with which no key of Create begins. It may be repeated. hash is that of the request, as of a
	// NewTimer; nil where the key or the value tells another request. Errors: not_found (unknown
	// app); KeyTaken: the key has another hash.
	PutIfAbsent(
		ctx context.Context,
		app, key string,
		hash []byte,
		value int64,
	) (kept int64, err error)
}

// MaxIdempotencyKey limits an idempotency key, in bytes.
const MaxIdempotencyKey = 255

// CheckIdempotencyKey returns an invalid error if a key has more than MaxIdempotencyKey bytes.
func CheckIdempotencyKey(key string) error {
	if len(key) <= MaxIdempotencyKey {
		return nil
	}
	return timer.Invalid("idempotency_key", fmt.Sprintf(
		"expected at most %d bytes, found %d: use a shorter key", MaxIdempotencyKey, len(key),
	))
}

// KeyTaken is the error of a request whose idempotency key another request has.
func KeyTaken() error {
	return timer.Conflict(
		"idempotency_key",
		"expected a key that is new, or of the same request, found one of another: use another key",
	)
}
