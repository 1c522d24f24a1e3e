package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// Fixture is a running API over an embedded store and bus.
type Fixture struct {
	Api        *api.Service
	Store      *sqlstore.Store
	Broker     *membus.Broker
	Dispatched *Dispatched
	Faults     *Faults
}

// Dispatched records committed fires.
type Dispatched struct {
	Mu    sync.Mutex
	Fires []timer.Fire
}

// Committed records fires.
func (d *Dispatched) Committed(_ context.Context, fires []timer.Fire) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Fires = append(d.Fires, fires...)
}

// All returns the recorded fires.
func (d *Dispatched) All() []timer.Fire {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.Fires
}

// Faults is a store that can be unavailable.
type Faults struct {
	api.Store

	mu  sync.Mutex
	err error
}

// Set makes the store unavailable by err, until nil.
func (f *Faults) Set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *Faults) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Create fails while the store is unavailable.
func (f *Faults) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	if err := f.get(); err != nil {
		return nil, err
	}
	return f.Store.Create(ctx, items, plan)
}

// Timer fails while the store is unavailable.
func (f *Faults) Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error) {
	if err := f.get(); err != nil {
		return timer.Timer{}, err
	}
	return f.Store.Timer(ctx, app, id)
}

// Setup runs an API until the end of the test. change changes its options.
func Setup(t *testing.T, change ...func(*api.Options)) *Fixture {
	t.Helper()
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	broker := membus.NewBroker(membus.Options{})
	client := broker.Bus("api")
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	require.NoError(t, client.Setup(t.Context(), bus.Topics(bus.DefaultTaskPartitions)))
	counts := slicing.NewCounts(slicing.DefaultPerBucket)
	planner, err := expansion.New(expansion.Options{Counts: counts, Max: servicetest.MaxFires})
	require.NoError(t, err)

	f := &Fixture{Store: st, Broker: broker, Dispatched: &Dispatched{}, Faults: &Faults{Store: st}}
	o := api.Options{
		Store:      f.Faults,
		Bus:        client,
		Backlog:    client,
		Dispatch:   f.Dispatched,
		Plan:       planner.Plan,
		Counts:     counts,
		Successor:  planner,
		Now:        time.Now,
		Auth:       auth.Rules{Off: true},
		Secrets:    Keyring(t),
		Caller:     callback.Callers{}, // test calls fail
		Logger:     zerolog.Nop(),
		Registerer: prometheus.NewRegistry(),
	}
	for _, c := range change {
		c(&o)
	}
	f.Api, err = api.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.Api.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.Error(t, f.Api.Ready())
	})
	return f
}

// Keyring returns a keyring with a new key.
func Keyring(t *testing.T) *encryption.Keyring {
	t.Helper()
	r, err := encryption.ParseKeyring(encryption.NewKey("test"))
	require.NoError(t, err)
	return r
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Into checks the status and decodes the body.
func (a Answer) Into(t *testing.T, status int, v any) {
	t.Helper()
	require.Equal(t, status, a.Status, a.Body)
	require.NoError(t, json.Unmarshal([]byte(a.Body), v), a.Body)
}

// Call sends a request.
func (f *Fixture) Call(t *testing.T, method, path, body string, header map[string]string) Answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	f.Api.Handler().ServeHTTP(w, r)
	return Answer{w.Code, w.Header(), w.Body.String()}
}

// ErrSecret names a server and a password, which no caller may see.
var ErrSecret = errors.New("dial tcp 10.1.2.3: password hunter2")
