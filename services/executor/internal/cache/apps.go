package cache

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/store"
)

// App holds the settings of an app that its calls follow.
type App struct {
	ID        int64
	Name      string
	Signer    *signing.Signer // nil: no signing keys
	SignError error           // why calls of the app cannot be signed, which it demands
	Egress    *egress.Policy
	Limits    limit.Settings

	readAt time.Time
}

// retrySigning is how long calls are refused because the signing keys cannot be decrypted, until the
// next call tries it again. So the metric and the check of secrets tell it as long as calls fail.
const retrySigning = time.Minute

// maxChangedApps is how many changed apps may wait to be read again.
const maxChangedApps = 1024

const readTimeout = 5 * time.Second

// Apps caches the apps that this process calls for. An app named by the change log is dropped
// and read before its next call. Its limits change with that, and its waiting fires ask again.
type Apps struct {
	opts    Options
	reads   singleflight.Group // by app: many fires ask at once
	changed chan *App

	mu         sync.Mutex
	byID       map[int64]*App
	ids        map[string]int64 // by name, of all apps that were read
	generation int              // counts drops
}

func newApps(o Options) *Apps {
	return &Apps{
		opts:    o,
		byID:    make(map[int64]*App),
		ids:     make(map[string]int64),
		changed: make(chan *App, maxChangedApps),
	}
}

// Known returns a cached app, or nil.
func (t *Apps) Known(id int64) *App {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byID[id]
	if a != nil && a.SignError != nil && time.Since(a.readAt) >= retrySigning {
		return nil
	}
	return a
}

// ID returns the id of an app that calls were made for, or 0. It is known although its settings are
// dropped.
func (t *Apps) ID(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids[name]
}

// AppQuestion asks for the settings of an app.
type AppQuestion struct {
	ID   int64
	Name string
}

// Of returns an app, read from the store the first time.
func (t *Apps) Of(ctx context.Context, q AppQuestion) (*App, error) {
	if known := t.Known(q.ID); known != nil {
		return known, nil
	}
	read, err, _ := t.reads.Do(strconv.FormatInt(q.ID, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		return t.read(ctx, q)
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // already wrapped
	}
	return read.(*App), nil //nolint:forcetypeassert // as read above
}

// Changed receives dropped apps that had limits, with their old settings. If it is full, the waiting
// fires of an app ask at their retry-after time.
func (t *Apps) Changed() <-chan *App { return t.changed }

// forget drops the settings of the apps.
func (t *Apps) forget(ids ...int64) {
	if len(ids) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	for _, id := range ids {
		if known := t.byID[id]; known != nil && known.Limits != (limit.Settings{}) {
			select {
			case t.changed <- known:
			default:
			}
		}
		delete(t.byID, id)
	}
}

// forgetAll drops the settings of every app.
func (t *Apps) forgetAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	clear(t.byID)
}

// read reads an app, again if any app was dropped meanwhile: the read may predate the change behind
// the drop.
func (t *Apps) read(ctx context.Context, q AppQuestion) (*App, error) {
	for {
		t.mu.Lock()
		generation := t.generation
		t.mu.Unlock()
		fresh, err := t.fetch(ctx, q)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		if t.generation == generation {
			t.opts.SetLimits(q.Name, fresh.Limits)
			t.byID[q.ID], t.ids[q.Name] = fresh, q.ID
			t.mu.Unlock()
			return fresh, nil
		}
		t.mu.Unlock()
	}
}

func (t *Apps) fetch(ctx context.Context, q AppQuestion) (*App, error) {
	apps, err := t.opts.Store.AppsByID(ctx, []int64{q.ID})
	if err != nil {
		return nil, fmt.Errorf("reading the app %q: %w", q.Name, err)
	}
	fresh := &App{ID: q.ID, Name: q.Name, Egress: t.opts.Egress, readAt: time.Now()}
	if len(apps) == 0 {
		return fresh, nil
	}
	stored, err := t.opts.Store.SigningKeys(ctx, q.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys of the app %q: %w", q.Name, err)
	}
	if fresh.Signer, fresh.SignError = t.signer(q.Name, stored); fresh.SignError != nil {
		t.opts.Logger.Error().
			Err(fresh.SignError).
			Str("app", q.Name).
			Msg("only unsigned targets of the app are called")
	}
	a := &apps[0].Settings
	if t.opts.Egress != nil {
		fresh.Egress = t.opts.Egress.With(t.rules(q.Name, a.Allow)...)
	}
	fresh.Limits = limit.Settings{Rate: a.Rate, Burst: a.Burst, Concurrent: a.Concurrent}
	return fresh, nil
}

// rules parses the egress rules of an app. Each rule allows something, so leaving out a rule
// unknown to this release allows less.
func (t *Apps) rules(app string, texts []string) []egress.Rule {
	rules := make([]egress.Rule, 0, len(texts))
	for _, text := range texts {
		r, err := egress.ParseRule(text)
		if err != nil {
			t.opts.Logger.Error().
				Err(err).
				Str("app", app).
				Msg("egress rule not understood, left out")
			continue
		}
		rules = append(rules, r)
	}
	return rules
}

// signer returns the signer of an app, nil: it has no keys.
func (t *Apps) signer(app string, stored []store.SigningKey) (*signing.Signer, error) {
	keys := make([]signing.StoredKey, len(stored))
	for i := range stored {
		keys[i] = signing.StoredKey{Kind: stored[i].Kind, Secret: stored[i].Secret}
	}
	signer, err := signing.SignerOf(app, keys, t.opts.Opener)
	if err != nil {
		return nil, fmt.Errorf("the call cannot be signed: %w", err)
	}
	return signer, nil
}
