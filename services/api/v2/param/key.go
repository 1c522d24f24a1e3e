package param

import (
	"encoding/binary"

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

// SeriesOf derives a series from a key, from 1 to timer.MaxID.
func SeriesOf(key string) int64 {
	n := binary.BigEndian.Uint64([]byte(key[1:9])) % uint64(timer.MaxID)
	return int64(n) + 1
}
