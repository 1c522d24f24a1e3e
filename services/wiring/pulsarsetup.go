package wiring

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/timer"
)

// pulsarSetup sets up Pulsar and then watches its brokers, whose admin API may answer where they do
// not. It goes on while the process runs.
type pulsarSetup struct {
	ended  chan struct{}
	err    error         // why it cannot succeed, once ended is closed; nil: it has
	failed chan struct{} // closed by the first attempt whose error may pass
}

// preparePulsar begins to set up Pulsar. Until the brokers were reached once, the process is not
// ready, so that a wrong address stops a rollout. Afterwards their check is optional: an outage must
// not take the API away, which works without Pulsar.
func (k *Kit) preparePulsar(ctx context.Context, b *pulsarbus.Bus) *pulsarSetup {
	p := &pulsarSetup{ended: make(chan struct{}), failed: make(chan struct{})}
	var once sync.Once
	setup := func(ctx context.Context) error {
		err := b.TrySetup(ctx, bus.Topics(k.Settings.Pulsar.Partitions))
		// Other errors end the setup, and wait returns them.
		if timer.CodeOf(err) == timer.CodeUnavailable || err != nil && ctx.Err() != nil {
			once.Do(func() { close(p.failed) })
		}
		return err //nolint:wrapcheck // prepare says which server
	}
	brokers := k.watchServer(pulsarServer, b.Ping)
	// The first signal does not end it: the process stops in order.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(p.ended)
		if p.err = k.prepare(
			ctx,
			pulsarServer,
			attemptTimeout,
			setup,
			brokers.check,
		); p.err != nil {
			return
		}
		k.Health.Set("pulsar at start", func(context.Context) error {
			return brokers.checkAtStart()
		})
		k.Health.SetOptional(pulsarServer, brokers.check)
		brokers.start()
	}()
	k.Process.OnClose("setup of Pulsar", func(ctx context.Context) error {
		stop()
		select {
		case <-p.ended:
			return nil
		case <-ctx.Done(): // a request for a token cannot be interrupted
			return ctx.Err() //nolint:wrapcheck // the process says what was closing
		}
	})
	return p
}

// startWithoutPulsar is how long a process waits for the first setup before it works without Pulsar.
// A server that hangs refuses nothing.
const startWithoutPulsar = 2 * time.Second

// wait waits until Pulsar is set up. Unless it must be, a failed attempt is enough, or one that takes
// long: executors find fires in the store, and what the API accepts is stored there.
func (p *pulsarSetup) wait(ctx context.Context, must bool) error {
	failed := p.failed
	long := time.After(startWithoutPulsar)
	if must {
		failed, long = nil, nil
	}
	select {
	case <-p.ended:
		return p.err
	case <-failed:
		return nil
	case <-long:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", pulsarServer, context.Cause(ctx))
	}
}

// run ends the process if Pulsar can never be set up, for example because of a wrong password.
func (p *pulsarSetup) run(ctx context.Context) error {
	select {
	case <-p.ended:
		if p.err != nil && ctx.Err() == nil {
			return p.err
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}
