package memstore

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// APIKey returns a key by its public id.
func (s *Store) APIKey(_ context.Context, id string) (store.APIKey, error) {
	defer s.lock()()
	if k := s.keysByID[id]; k != nil {
		return *k, nil
	}
	return store.APIKey{}, timer.NoSuch("API key", id)
}

// APIKeys returns the keys of an app, newest first.
func (s *Store) APIKeys(_ context.Context, app string) ([]store.APIKey, error) {
	defer s.lock()()
	return s.liveKeys(func(k *store.APIKey) bool { return k.App == app }), nil
}

func (s *Store) liveKeys(wanted func(k *store.APIKey) bool) (keys []store.APIKey) {
	for _, k := range s.keysByID {
		if k.RevokedMS == 0 && wanted(k) {
			keys = append(keys, *k)
		}
	}
	slices.SortFunc(keys, func(a, b store.APIKey) int {
		if a.CreatedMS != b.CreatedMS {
			return int(b.CreatedMS - a.CreatedMS)
		}
		return strings.Compare(b.ID, a.ID)
	})
	return keys
}

// AddAPIKey adds a key and logs the change.
func (s *Store) AddAPIKey(ctx context.Context, k store.APIKey) error {
	if k.ID == "" || len(k.Hash) == 0 {
		return timer.Invalid("id", "a key has an id and a hash")
	}
	defer s.lockToWrite(ctx)()
	if err := s.refuseDeleted(k.App); err != nil {
		return err
	}
	if had := s.keysByID[k.ID]; had != nil {
		if had.App != k.App {
			return timer.Conflict("id", "this key id is taken")
		}
		return nil
	}
	live := s.liveKeys(func(o *store.APIKey) bool { return o.App == k.App && o.Scope == k.Scope })
	if err := room("scope", len(live)); err != nil {
		return err
	}
	if k.CreatedMS == 0 {
		k.CreatedMS = s.nowMS()
	}
	k.Hash, k.RevokedMS = bytes.Clone(k.Hash), 0
	s.keysByID[k.ID] = &k
	e, err := store.AuditKeyAdded(&k)
	s.addAudit(store.ActorOf(ctx), k.App, e, err)
	s.log(s.nowMS(), nil, s.app(k.App))
	return nil
}

// RevokeAPIKey revokes a key.
func (s *Store) RevokeAPIKey(ctx context.Context, app, id string) error {
	defer s.lockToWrite(ctx)()
	k := s.keysByID[id]
	if k == nil || k.App != app {
		return timer.NoSuch("API key", id)
	}
	if k.RevokedMS == 0 {
		k.RevokedMS = s.nowMS()
		e, err := store.AuditKeyRevoked(k)
		s.addAudit(store.ActorOf(ctx), app, e, err)
		s.log(k.RevokedMS, nil, s.app(app))
	}
	return nil
}
