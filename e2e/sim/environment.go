package sim

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/limit/memstate"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
)

const replicas = 2

// Environment is one simulated deployment.
type Environment struct {
	plan        Plan
	settings    Settings
	log         journal
	startTime   time.Time
	ctx         context.Context //nolint:containedctx // of all processes
	store       store.Store
	broker      *membus.Broker
	window      *memwindow.Window
	limitState  limit.SharedState
	keyring     *encryption.Keyring
	tokens      *callback.CompletionTokens
	deferrals   atomic.Int64
	recorder    *recorder
	deadLetters deadLetters
	observer    *observer
	client      *client.Client
	skews       map[role][replicas]time.Duration
	running     sync.WaitGroup

	mu           sync.Mutex
	processCount uint16
	schedulers   []*prometheus.Registry // of every scheduler process there was
	processes    map[uint16]*process
	current      map[role]*[replicas]*process
	handlers     map[*process]http.Handler
	conditions   conditions
	busFaults    membus.Faults
	broken       []string // promises that were found broken during the run
	suspected    []string // faults of the latest comparison
	nextAPI      int
	nackedAt     map[timer.FireID]time.Time // when a task of the fire was last not acknowledged
}

// failf records a broken promise.
func (env *Environment) failf(format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	env.log.printf("BROKEN: %s", msg)
	env.mu.Lock()
	defer env.mu.Unlock()
	env.broken = append(env.broken, msg)
}

func (env *Environment) processAt(r role, replica int) *process {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.current[r][replica]
}

func (env *Environment) setHandler(p *process, h http.Handler) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.handlers[p] = h
}

// Run runs a plan inside a synctest bubble and returns the result.
func Run(t *testing.T, plan Plan, settings Settings) *Result {
	t.Helper()
	env := &Environment{
		plan:       plan,
		settings:   settings,
		startTime:  time.Now(),
		recorder:   newRecorder(),
		current:    make(map[role]*[replicas]*process),
		processes:  make(map[uint16]*process),
		nackedAt:   make(map[timer.FireID]time.Time),
		handlers:   make(map[*process]http.Handler),
		skews:      plan.Skews,
		conditions: conditions{store: healthy},
	}
	env.log.start = env.startTime
	env.settings.tune(plan.Tune)
	env.observer = newObserver(env)
	env.client = client.NewWithTransport(env)
	var end context.CancelFunc
	env.ctx, end = context.WithCancel(t.Context())
	var err error
	env.keyring, err = encryption.ParseKeyring(encryption.NewSecret(client.EncryptionKeys))
	require.NoError(t, err)
	env.tokens, err = callback.NewCompletionTokens(env.keyring.Derive("completion")...)
	require.NoError(t, err)
	env.store = openStore(t, settings.SQLite)
	env.window = memwindow.New(memwindow.Options{MaxEntries: plan.Tune.MaxEntries})
	env.limitState = memstate.New(nil)
	env.broker = membus.NewBroker(
		membus.Options{MaxMessages: plan.Tune.MaxMessages, Faults: membus.Faults{Seed: plan.Seed}},
	)
	setup := env.broker.Bus("setup")
	require.NoError(t, setup.Setup(t.Context(), bus.Topics(bus.DefaultTaskPartitions)))

	// Dead letters are a notification, so this subscription exists before the first is published.
	_, err = env.deadLetters.collect(t.Context(), env.broker.Bus("operators"))
	require.NoError(t, err)
	// The first request for the cursor sets it. So it is made here, and not by the final check of
	// its progress.
	_, err = env.store.Cursor(t.Context(), timer.MinuteOf(env.startTime.UnixMilli()))
	require.NoError(t, err)
	for _, r := range roles {
		env.current[r] = new([replicas]*process)
		for replica := range replicas {
			env.start(r, replica)
		}
	}
	var acting sync.WaitGroup
	for i := range plan.Timers {
		acting.Go(func() { env.runTimerPlan(&plan.Timers[i]) })
	}
	for i := range plan.Limits {
		acting.Go(func() { env.applyLimits(&plan.Limits[i]) })
	}
	for i := range plan.Faults {
		acting.Go(func() { env.inject(&plan.Faults[i]) })
	}
	acting.Wait()
	res := env.settle(t)
	end()
	env.running.Wait()
	require.NoError(t, env.broker.Close())
	require.NoError(t, env.store.Close())
	res.complete(env)
	return res
}

// maxEditFires gives most edits a follow-up.
const maxEditFires = 5

func openStore(t *testing.T, database bool) store.Store {
	t.Helper()
	if !database {
		s := memstore.New(time.Now)
		s.SetMaxEditFires(maxEditFires)
		return s
	}
	s, err := sqlstore.OpenSQLite(
		t.Context(),
		sqlstore.SQLiteOptions{MaxEditFires: maxEditFires, Logger: zerolog.Nop()},
	)
	require.NoError(t, err)
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func (env *Environment) processByNumber(n uint16) *process {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.processes[n]
}
