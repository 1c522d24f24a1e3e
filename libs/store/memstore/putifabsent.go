package memstore

import (
	"context"

	"github.com/carillon-timer/carillon/libs/timer"
)

// PutIfAbsent keeps the first value of a key.
func (s *Store) PutIfAbsent(ctx context.Context, app, k string, value int64) (int64, error) {
	defer s.lockToWrite(ctx)()
	if s.apps[app] == nil {
		return 0, timer.NoSuch("app", app)
	}
	id := absentKey{app, k}
	if kept, ok := s.once[id]; ok {
		return kept, nil
	}
	if s.once == nil {
		s.once = make(map[absentKey]int64)
	}
	s.once[id] = value
	return value, nil
}

type absentKey struct{ app, key string }
