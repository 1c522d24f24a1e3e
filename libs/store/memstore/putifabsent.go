package memstore

import (
	"bytes"
	"context"

	"github.com/carillon-timer/carillon/libs/store"
)

// PutIfAbsent keeps the first value of a key.
func (s *Store) PutIfAbsent(
	ctx context.Context,
	app, k string,
	hash []byte,
	value int64,
) (int64, error) {
	defer s.lockToWrite(ctx)()
	if s.apps[app] == nil {
		return 0, store.NoSuchApp(app)
	}
	id := absentKey{app, k}
	if kept, ok := s.once[id]; ok {
		if !bytes.Equal(kept.hash, hash) {
			return 0, store.KeyTaken()
		}
		return kept.value, nil
	}
	if s.once == nil {
		s.once = make(map[absentKey]absentValue)
	}
	s.once[id] = absentValue{hash, value}
	return value, nil
}

type absentKey struct{ app, key string }

type absentValue struct {
	hash  []byte
	value int64
}
