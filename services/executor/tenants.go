package executor

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/singleflight"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// tenant holds the settings of an app that its calls follow.
type tenant struct {
	id            int64
	name          string
	signer        *signing.Signer // nil: no signing keys
	egress        *egress.Policy
	limits        limit.Settings
	misconfigured error // why the app cannot be called with its present keys
}

// maxChangedApps is how many changed apps may wait to be read again.
const maxChangedApps = 1024

// Opener decrypts secrets; *encryption.Keyring implements it.
type Opener interface {
	Open(s timer.Sealed, b encryption.Binding) (encryption.Secret, error)
}

// tenantStore reads apps and their signing keys.
type tenantStore interface {
	store.AppsByID
	SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error)
}

// tenants caches the apps that this process calls for. An app named by the change log is dropped
// and read before its next call. Its limits change with that, and its waiting fires ask again.
type tenants struct {
	store     tenantStore
	opener    Opener
	policy    *egress.Policy
	admission limit.Admission
	log       zerolog.Logger
	reads     singleflight.Group // by app: many fires ask at once
	// changed receives dropped apps that had limits, with their old settings. If it is full, the
	// waiting fires of an app ask at their retry-after time.
	changed chan *tenant

	mu         sync.Mutex
	byID       map[int64]*tenant
	generation int // counts drops
}

func newTenants(o *Options) *tenants {
	return &tenants{
		store:     o.Store,
		opener:    o.Opener,
		policy:    o.Egress,
		admission: o.Limits,
		log:       o.Logger,
		byID:      make(map[int64]*tenant),
		changed:   make(chan *tenant, maxChangedApps),
	}
}

// known returns a cached tenant, or nil.
func (t *tenants) known(id int64) *tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// of returns a tenant, read from the store the first time.
func (t *tenants) of(ctx context.Context, id int64, name string) (*tenant, error) {
	if known := t.known(id); known != nil {
		return known, nil
	}
	read, err, _ := t.reads.Do(strconv.FormatInt(id, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, storeBatchTimeout)
		defer cancel()
		return t.read(ctx, id, name)
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // already wrapped
	}
	return read.(*tenant), nil //nolint:forcetypeassert // as read above
}

// forget drops the settings of the apps.
func (t *tenants) forget(ids ...int64) {
	if len(ids) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	for _, id := range ids {
		if known := t.byID[id]; known != nil && known.limits != (limit.Settings{}) {
			select {
			case t.changed <- known:
			default:
			}
		}
		delete(t.byID, id)
	}
}

// forgetAll drops the settings of every app.
func (t *tenants) forgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	clear(t.byID)
}

// read reads an app, again if any app was dropped meanwhile: the read may predate the change behind
// the drop.
func (t *tenants) read(ctx context.Context, id int64, name string) (*tenant, error) {
	for {
		t.mu.Lock()
		generation := t.generation
		t.mu.Unlock()
		fresh, err := t.fetch(ctx, id, name)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		if t.generation == generation {
			t.admission.Set(name, fresh.limits)
			t.byID[id] = fresh
			t.mu.Unlock()
			return fresh, nil
		}
		t.mu.Unlock()
	}
}

func (t *tenants) fetch(ctx context.Context, id int64, name string) (*tenant, error) {
	apps, err := t.store.AppsByID(ctx, []int64{id})
	if err != nil {
		return nil, fmt.Errorf("reading the app %q: %w", name, err)
	}
	fresh := &tenant{id: id, name: name, egress: t.policy}
	if len(apps) == 0 {
		return fresh, nil
	}
	stored, err := t.store.SigningKeys(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys of the app %q: %w", name, err)
	}
	if fresh.signer, fresh.misconfigured = t.signer(name, stored); fresh.misconfigured != nil {
		t.log.Error().
			Err(fresh.misconfigured).
			Str("app", name).
			Msg("app cannot be called: its callbacks cannot be signed")
	}
	a := &apps[0].Settings
	if t.policy != nil {
		fresh.egress = t.policy.With(t.rules(name, a.Allow)...)
	}
	fresh.limits = limit.Settings{Rate: a.Rate, Burst: a.Burst, Concurrent: a.Concurrent}
	return fresh, nil
}

// rules parses the egress rules of an app. Each rule allows something, so leaving out a rule
// unknown to this release allows less.
func (t *tenants) rules(app string, texts []string) []egress.Rule {
	rules := make([]egress.Rule, 0, len(texts))
	for _, text := range texts {
		r, err := egress.ParseRule(text)
		if err != nil {
			t.log.Error().Err(err).Str("app", app).Msg("egress rule not understood, left out")
			continue
		}
		rules = append(rules, r)
	}
	return rules
}

// signer returns the signer of an app, nil: it has no keys.
func (t *tenants) signer(app string, stored []store.SigningKey) (*signing.Signer, error) {
	keys := make([]signing.StoredKey, len(stored))
	for i := range stored {
		keys[i] = signing.StoredKey{Kind: stored[i].Kind, Secret: stored[i].Secret}
	}
	return signing.SignerOf(app, keys, t.opener) //nolint:wrapcheck // it says what it was doing
}
