package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/logging"
)

// ErrStopping is the error of the check "process" from the first signal on.
var ErrStopping = errors.New("the process is stopping")

// closeTimeout limits the closing of one part.
const closeTimeout = 5 * time.Second

// RecordTime is what work parts have after Grace, to record what ended within it and to give back
// the rest.
const RecordTime = 5 * time.Second

// Options are a process's dependencies and settings.
type Options struct {
	Logger zerolog.Logger
	Health *health.Health
	Drain  time.Duration // between "not ready" and the end of intake
	Grace  time.Duration // for intake to end, and again for work, without RecordTime; at least 1 ms

	// is called with the admin listener's address before it serves; may be nil
	Listening func(net.Addr)
}

// Process runs parts and stops them in order. Only its health checks are safe for concurrent use.
type Process struct {
	o         Options
	intake    stage
	work      stage
	closers   []closer
	ended     chan error // error of the first part that ended by itself
	adminAddr string
}

type closer struct {
	name  string
	close func(context.Context) error
}

// New returns a process without parts.
func New(o Options) *Process {
	o.Grace = max(o.Grace, time.Millisecond)
	return &Process{o: o, ended: make(chan error, 1)}
}

// OnClose registers a function that runs when all parts have stopped, the last registered first.
// Its context has a timeout of 5 s.
func (p *Process) OnClose(name string, f func(context.Context) error) {
	p.closers = append(p.closers, closer{name, f})
}

// Intake adds a part that accepts work from outside. run blocks until its context ends. All intakes
// end before the first work part is told to.
func (p *Process) Intake(name string, run func(context.Context) error) { p.intake.add(name, run) }

// Work adds a part that does the work. run blocks until its context ends, finishes its work in
// flight, and returns nil.
func (p *Process) Work(name string, run func(context.Context) error) { p.work.add(name, run) }

// Run starts all parts and blocks until ctx ends or one of them does. Then it stops and closes
// everything. It returns why a part ended unexpectedly, or which parts did not stop in time; nil
// for a clean stop.
func (p *Process) Run(ctx context.Context) error {
	p.work.start(ctx, p.ended)
	p.intake.start(ctx, p.ended)
	var cause error
	select {
	case <-ctx.Done():
	case cause = <-p.ended:
		p.o.Logger.Error().Err(cause).Msg("component exited")
	}
	p.o.Health.SetError("process", ErrStopping)
	p.o.Logger.Info().Msg("stopping")
	if cause == nil && p.o.Drain > 0 {
		drained := time.NewTimer(p.o.Drain) // a second signal ends the process in the meantime
		select {
		case <-drained.C:
		case cause = <-p.ended:
			drained.Stop()
		}
	}
	return errors.Join(
		cause, p.intake.stop(p.o.Grace), p.work.stop(p.o.Grace+RecordTime), p.Close())
}

// Close runs the functions of OnClose. Run calls it; call it yourself if Run is never reached. A
// second call does nothing.
func (p *Process) Close() error {
	var errs []error
	for _, c := range slices.Backward(p.closers) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		if err := c.close(ctx); err != nil {
			errs = append(errs, fmt.Errorf("closing %s: %w", c.name, err))
		}
		cancel()
		p.o.Logger.Debug().Str(logging.Part, c.name).Msg("closed")
	}
	p.closers = nil
	return errors.Join(errs...)
}

// stage is a set of parts that are told to stop together.
type stage struct {
	parts  []part
	group  errgroup.Group
	cancel context.CancelFunc
	mu     sync.Mutex
	alive  []string // parts that have not ended
}

type part struct {
	name string
	run  func(context.Context) error
}

func (s *stage) add(name string, run func(context.Context) error) {
	s.parts = append(s.parts, part{name, run})
}

// start runs the parts under a context of their own. They end when their stage is stopped, not at
// the first signal.
func (s *stage) start(ctx context.Context, ended chan<- error) {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, p := range s.parts {
		s.alive = append(s.alive, p.name)
	}
	for _, p := range s.parts {
		s.group.Go(func() error {
			err := p.run(ctx)
			s.mu.Lock()
			s.alive = slices.DeleteFunc(s.alive, func(name string) bool { return name == p.name })
			s.mu.Unlock()
			if err != nil {
				err = fmt.Errorf("running %s: %w", p.name, err)
			}
			if ctx.Err() != nil {
				return err
			}
			if err == nil {
				err = fmt.Errorf("%s ended by itself", p.name)
			}
			select {
			case ended <- err:
			default:
			}
			return nil // reported through ended
		})
	}
}

// stop tells the parts to end and waits for them, at most for grace.
func (s *stage) stop(grace time.Duration) error {
	s.cancel()
	done := make(chan error, 1)
	go func() { done <- s.group.Wait() }()
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("not stopped within %s: %s", grace, strings.Join(s.alive, ", "))
	}
}
