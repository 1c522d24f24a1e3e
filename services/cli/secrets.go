package cli

import (
	"context"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const secretsPage = 200 // rows per query

// secretStore reads and writes secrets.
type secretStore interface {
	store.Resealer
	store.States
}

// secretVisitor visits everything in a store that has secrets. It ends with the first error of a
// function. It leaves out the definitions of timers that are removed meanwhile.
type secretVisitor struct {
	store secretStore
	// definition is called with each version of a definition that has secrets, and its app, to which
	// they are bound. One that is unreadable may have some.
	definition func(key store.VersionKey, d timer.Definition, app string) error
	// signingKey is called with each signing key.
	signingKey func(k store.SigningKey) error
	// page is called after each page of definitions with the last timer. nil: not called.
	page func(last timer.ID)
}

func (v *secretVisitor) all(ctx context.Context) error {
	if err := v.definitions(ctx); err != nil {
		return err
	}
	return v.signingKeys(ctx)
}

func (v *secretVisitor) definitions(ctx context.Context) error {
	for after := (store.VersionKey{}); ; {
		page, next, err := v.store.SealedVersions(ctx, after, secretsPage)
		if err != nil {
			return fmt.Errorf("reading definitions: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		apps, err := v.apps(ctx, page)
		if err != nil {
			return err
		}
		for key, d := range page {
			app, there := apps[key.Timer]
			if !there {
				continue
			}
			if err := v.definition(key, *d, app); err != nil {
				return err
			}
		}
		if v.page != nil {
			v.page(next.Timer)
		}
		after = next
	}
}

// apps returns the apps of the timers that still exist.
func (v *secretVisitor) apps(
	ctx context.Context,
	page map[store.VersionKey]*timer.Definition,
) (map[timer.ID]string, error) {
	ids := make([]timer.ID, 0, len(page))
	for key := range page {
		ids = append(ids, key.Timer)
	}
	states, err := v.store.States(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading timers: %w", err)
	}
	apps := make(map[timer.ID]string, len(states))
	for i := range states {
		apps[states[i].ID] = states[i].App
	}
	return apps, nil
}

func (v *secretVisitor) signingKeys(ctx context.Context) error {
	for after := timer.ID(0); ; {
		page, err := v.store.AllSigningKeys(ctx, after, secretsPage)
		if err != nil {
			return fmt.Errorf("reading signing keys: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, k := range page {
			if err := v.signingKey(k); err != nil {
				return err
			}
			after = k.ID
		}
	}
}
