package sim

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/sim/memstore"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
)

const replicas = 2

// Environment is one simulated deployment.
type Environment struct {
	plan    Plan
	set     Settings
	log     journal
	start0  time.Time
	ctx     context.Context //nolint:containedctx // of all processes
	store   store.Store
	broker  *membus.Broker
	window  *memwindow.Window
	ledger  limit.SharedState
	ring    *encryption.Keyring
	tokens  *callback.CompletionTokens
	parked  atomic.Int64
	recv    *recorder
	letters letters
	seen    *observer
	client  *client.Client
	skews   map[role][replicas]time.Duration
	running sync.WaitGroup

	mu        sync.Mutex
	made      uint16
	all       map[uint16]*process
	places    map[role]*[replicas]*process
	webs      map[*process]http.Handler
	weather   weather
	busFaults membus.Faults
	faults    []string // promises that were seen broken while the world ran
	blamed    []string // of the last look
	turn      int
	refused   map[timer.FireID]time.Time // when a task of the fire was last not acknowledged
}

// failf notes a broken promise.
func (w *Environment) failf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	w.log.printf("BROKEN: %s", msg)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, msg)
}

func (w *Environment) at(r role, place int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.places[r][place]
}

func (w *Environment) serve(p *process, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.webs[p] = h
}

// Run lives a plan through, inside a synctest bubble, and returns what it found.
func Run(t *testing.T, plan Plan, set Settings) *Result {
	t.Helper()
	w := &Environment{
		plan:    plan,
		set:     set,
		start0:  time.Now(),
		recv:    newRecorder(),
		places:  make(map[role]*[replicas]*process),
		all:     make(map[uint16]*process),
		refused: make(map[timer.FireID]time.Time),
		webs:    make(map[*process]http.Handler),
		skews:   plan.Skews,
		weather: weather{store: good},
	}
	w.log.start = w.start0
	w.set.tune(plan.Tune)
	w.seen = newObserver(w)
	w.client = client.Over(w)
	var end context.CancelFunc
	w.ctx, end = context.WithCancel(t.Context())
	var err error
	w.ring, err = encryption.ParseKeyring(encryption.NewSecret(client.EncryptionKeys))
	require.NoError(t, err)
	w.tokens, err = callback.NewCompletionTokens(w.ring.Derive("completion")...)
	require.NoError(t, err)
	w.store = openStore(t, set.SQLite)
	w.window = memwindow.New(memwindow.Options{MaxEntries: plan.Tune.MaxEntries})
	w.ledger = memstate.New(nil)
	w.broker = membus.NewBroker(
		membus.Options{MaxMessages: plan.Tune.MaxMessages, Faults: membus.Faults{Seed: plan.Seed}},
	)
	setup := w.broker.Bus("setup")
	require.NoError(t, setup.Setup(t.Context(), bus.Topics(bus.DefaultTaskPartitions)))

	_, err = w.letters.collect(t.Context(), w.broker.Bus("operators"))
	require.NoError(t, err)
	// Whoever asks first for the cursor sets it: that must not be who looks at the end whether it
	// has moved.
	_, err = w.store.Cursor(t.Context(), timer.MinuteOf(w.start0.UnixMilli()))
	require.NoError(t, err)
	for _, r := range roles {
		w.places[r] = new([replicas]*process)
		for place := range replicas {
			w.start(r, place)
		}
	}
	var acting sync.WaitGroup
	for i := range plan.Orders {
		acting.Go(func() { w.carryOut(&plan.Orders[i]) })
	}
	for i := range plan.Limits {
		acting.Go(func() { w.limit(&plan.Limits[i]) })
	}
	for i := range plan.Faults {
		acting.Go(func() { w.befall(&plan.Faults[i]) })
	}
	acting.Wait()
	res := w.settle(t)
	end()
	w.running.Wait()
	require.NoError(t, w.broker.Close())
	require.NoError(t, w.store.Close())
	res.finish(w)
	return res
}

func openStore(t *testing.T, database bool) store.Store {
	t.Helper()
	if !database {
		return memstore.New(time.Now)
	}
	s, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Logger: zerolog.Nop()})
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func (w *Environment) byNumber(n uint16) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[n]
}
