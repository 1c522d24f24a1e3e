package param

import (
	"context"
	"encoding/binary"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// KeyHeader is the idempotency key of a request that creates something.
type KeyHeader struct {
	Key string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"Repeating the request under the same key within a day answers with the result of the first."`
}

// KeyOf returns what the store keeps of an idempotency key. It begins with a control character, so
// no key of a caller can equal it.
func KeyOf(what string, id timer.ID, key string) string {
	return "\x01" + string(input.Hash(struct {
		What string
		ID   timer.ID
		Key  string
	}{what, id, key}))
}

// Keys is the part of the store that KeepKey needs.
type Keys interface {
	store.IdempotencyKeys
	App(ctx context.Context, name string) (store.App, error)
}

// KeepKey keeps the instant of a request that creates fires, or an id that tells it, under its key,
// and returns what the first request under the key kept. The fires are planned from then on. A frozen
// app is refused before its key is kept: otherwise the same request after the freeze would create
// fires that are late from the beginning. If the app is frozen between the two, the store refuses the
// fires and the key stays: repeated within a day, the request counts from the refused one.
func KeepKey(
	ctx context.Context, s Keys, app, key string, hash []byte, value int64,
) (kept int64, err error) {
	a, err := s.App(ctx, app)
	if err != nil {
		return 0, err //nolint:wrapcheck // the store says what it was doing
	}
	if !a.Frozen {
		return s.PutIfAbsent(ctx, app, key, hash, value) //nolint:wrapcheck // as above
	}
	kept, err = s.PutIfAbsent(store.WithDryRun(ctx), app, key, hash, 0) // only looks it up
	if err == nil && kept == 0 {
		err = store.FrozenConflict(app)
	}
	return kept, err
}

// SeriesOf derives a series from a key, from 1 to timer.MaxID.
func SeriesOf(key string) int64 {
	n := binary.BigEndian.Uint64([]byte(key[1:9])) % uint64(timer.MaxID)
	return int64(n) + 1
}
