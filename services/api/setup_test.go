package api_test

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
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a running API over an embedded store and bus.
type fixture struct {
	api        *api.Service
	store      *sqlstore.Store
	broker     *membus.Broker
	dispatched *dispatched
	faults     *faults
}

// dispatched records committed fires.
type dispatched struct {
	mu    sync.Mutex
	fires []timer.Fire
}

func (d *dispatched) Committed(_ context.Context, fires []timer.Fire) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fires = append(d.fires, fires...)
}

func (d *dispatched) all() []timer.Fire {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fires
}

// faults is a store that can be unavailable.
type faults struct {
	api.Store

	mu  sync.Mutex
	err error
}

func (f *faults) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faults) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faults) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	if err := f.get(); err != nil {
		return nil, err
	}
	return f.Store.Create(ctx, items, plan)
}

func (f *faults) Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error) {
	if err := f.get(); err != nil {
		return timer.Timer{}, err
	}
	return f.Store.Timer(ctx, app, id)
}

func setup(t *testing.T, change ...func(*api.Options)) *fixture {
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
	planner, err := expansion.New(expansion.Options{Counts: counts})
	require.NoError(t, err)

	f := &fixture{store: st, broker: broker, dispatched: &dispatched{}, faults: &faults{Store: st}}
	o := api.Options{
		Store:       f.faults,
		Bus:         client,
		Dispatch:    f.dispatched,
		Plan:        planner.Plan,
		Counts:      counts,
		Successor:   planner,
		Now:         time.Now,
		DeadLetters: client,
		Auth:        api.Auth{Off: true},
		Secrets:     testKeyring(t),
		Logger:      zerolog.Nop(),
		Registerer:  prometheus.NewRegistry(),
	}
	for _, c := range change {
		c(&o)
	}
	f.api, err = api.New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.api.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.Error(t, f.api.Ready())
	})
	return f
}

func testKeyring(t *testing.T) *encryption.Keyring {
	t.Helper()
	r, err := encryption.ParseKeyring(encryption.NewKey("test"))
	require.NoError(t, err)
	return r
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) into(t *testing.T, status int, v any) {
	t.Helper()
	require.Equal(t, status, a.status, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), v), a.body)
}

func (f *fixture) call(t *testing.T, method, path, body string, header map[string]string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	f.api.Handler().ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// v1Reply is the body of every v1 answer.
type v1Reply struct {
	Code int
	Msg  string
	ID   timer.ID
	Data map[string]any
}

func (f *fixture) v1(t *testing.T, status int, method, path, body string) v1Reply {
	t.Helper()
	var r v1Reply
	f.call(t, method, path, body, nil).into(t, status, &r)
	if status == http.StatusOK {
		require.Zero(t, r.Code)
		require.Equal(t, "ok", r.Msg)
	} else {
		require.Equal(t, status, r.Code)
		require.NotEmpty(t, r.Msg)
	}
	return r
}

var errSecret = errors.New("dial tcp 10.1.2.3: password hunter2")
