package memstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// PutSettings replaces an app's settings.
func (s *Store) PutSettings(
	ctx context.Context,
	name string,
	settings store.AppSettings,
	version int64,
) (store.App, error) {
	text, err := json.Marshal(settings)
	if err != nil {
		return store.App{}, fmt.Errorf("encoding the settings: %w", err)
	}
	defer s.lockToWrite(ctx)()
	a := s.app(name)
	if err := s.refuseDeleted(name); err != nil {
		return store.App{}, err
	}
	had, err := json.Marshal(a.Settings)
	if err != nil || bytes.Equal(had, text) {
		return *a, err //nolint:wrapcheck // it was encoded before
	}
	if version != 0 && version != a.Version {
		return store.App{}, timer.Conflict("version", "the settings have another version by now")
	}
	a.Settings = settings
	a.Settings.Allow = slices.Clone(settings.Allow)
	a.Version++
	s.log(s.nowMS(), nil, a)
	s.addAudit(store.ActorOf(ctx), name, store.AuditSettingsPut(name, had, text), nil)
	return *a, nil
}

// AppsByID returns apps.
func (s *Store) AppsByID(_ context.Context, ids []int64) (apps []store.App, err error) {
	defer s.lock()()
	for _, a := range s.apps {
		if slices.Contains(ids, a.ID) {
			apps = append(apps, *a)
		}
	}
	return apps, nil
}

const maxLiveKeys = 2

func room(field string, live int) error {
	if live >= maxLiveKeys {
		return timer.Conflict(field, "two keys of this "+field+" exist already: remove one first")
	}
	return nil
}

func (s *Store) signingKeys(wanted func(k *store.SigningKey) bool) (keys []store.SigningKey) {
	for _, k := range s.signing {
		if wanted(k) {
			keys = append(keys, *k)
		}
	}
	slices.SortFunc(keys, func(a, b store.SigningKey) int { return int(a.ID - b.ID) })
	return keys
}

// SigningKeys returns an app's keys, newest first.
func (s *Store) SigningKeys(_ context.Context, app string) ([]store.SigningKey, error) {
	defer s.lock()()
	keys := s.signingKeys(func(k *store.SigningKey) bool { return k.App == app })
	slices.Reverse(keys)
	slices.SortStableFunc(
		keys,
		func(a, b store.SigningKey) int { return int(b.CreatedMS - a.CreatedMS) },
	)
	return keys, nil
}

// AllSigningKeys returns keys of all apps.
func (s *Store) AllSigningKeys(
	_ context.Context,
	after timer.ID,
	limit int,
) ([]store.SigningKey, error) {
	defer s.lock()()
	keys := s.signingKeys(func(k *store.SigningKey) bool { return k.ID > after })
	return keys[:min(len(keys), limit)], nil
}

// AddSigningKey adds a key and logs the change.
func (s *Store) AddSigningKey(ctx context.Context, app string, k store.SigningKey) error {
	defer s.lockToWrite(ctx)()
	k.App = app
	if err := s.refuseDeleted(app); err != nil {
		return err
	}
	if had := s.signing[k.ID]; had != nil {
		if had.App != app {
			return timer.Conflict("id", "this key id is taken")
		}
		return nil
	}
	live := s.signingKeys(
		func(o *store.SigningKey) bool { return o.App == app && o.Kind == k.Kind },
	)
	if err := room("kind", len(live)); err != nil {
		return err
	}
	if k.CreatedMS == 0 {
		k.CreatedMS = s.nowMS()
	}
	s.signing[k.ID] = &k
	e, err := store.AuditSigningKeyAdded(&k)
	s.addAudit(store.ActorOf(ctx), app, e, err)
	s.log(s.nowMS(), nil, s.app(app))
	return nil
}

// RetireSigningKey removes a key.
func (s *Store) RetireSigningKey(ctx context.Context, app string, id timer.ID) error {
	defer s.lockToWrite(ctx)()
	k := s.signing[id]
	if k == nil || k.App != app {
		return timer.NotFound("signing key", id)
	}
	e, err := store.AuditSigningKeyRetired(k)
	s.addAudit(store.ActorOf(ctx), app, e, err)
	delete(s.signing, id)
	s.log(s.nowMS(), nil, s.app(app))
	return nil
}

// ResealSigningKey writes a re-encrypted secret.
func (s *Store) ResealSigningKey(_ context.Context, k store.SigningKey) error {
	defer s.lock()()
	if s.signing[k.ID] == nil {
		return timer.NotFound("signing key", k.ID)
	}
	s.signing[k.ID].Secret = k.Secret
	return nil
}

// SealedVersions returns definitions with encrypted text.
func (s *Store) SealedVersions(
	_ context.Context, after store.VersionKey, limit int,
) (map[store.VersionKey]*timer.Definition, store.VersionKey, error) {
	defer s.lock()()
	var keys []store.VersionKey
	for _, t := range s.rows {
		for v, d := range t.versions {
			if _, n := store.MaskSealed(
				d,
			); n > 0 &&
				(t.ID > after.Timer || t.ID == after.Timer && v > after.Version) {
				keys = append(keys, store.VersionKey{Timer: t.ID, Version: v})
			}
		}
	}
	slices.SortFunc(keys, func(a, b store.VersionKey) int {
		if a.Timer != b.Timer {
			return int(a.Timer - b.Timer)
		}
		return int(a.Version - b.Version)
	})
	found := make(map[store.VersionKey]*timer.Definition)
	for _, k := range keys[:min(len(keys), limit)] {
		d := s.timers[k.Timer].versions[k.Version]
		found[k], after = &d, k
	}
	return found, after, nil
}

// Reseal writes a re-encrypted definition.
func (s *Store) Reseal(_ context.Context, k store.VersionKey, d timer.Definition) error {
	d, text, err := canonical(d)
	if err != nil {
		return err
	}
	defer s.lock()()
	t := s.timers[k.Timer]
	if t == nil || t.versions[k.Version].Schedule.Kind == "" {
		return timer.NotFound("version", k.Version)
	}
	had, _ := store.MaskSealed(t.versions[k.Version])
	if want, _ := store.MaskSealed(d); !reflect.DeepEqual(had, want) {
		return timer.Invalid("definition", "it differs in more than encrypted text")
	}
	t.versions[k.Version] = d
	if k.Version == t.Version {
		t.Definition, t.text = d, text
	}
	return nil
}
