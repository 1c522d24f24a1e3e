package wiring

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/logging"
)

const (
	watchEvery = time.Second // between two pings of a server
	// maxCauses is how many causes of one outage are logged.
	maxCauses = 10
)

// serverWatch pings a server in the background. Readiness then needs no time of its own: the default
// timeout of a probe is shorter than that of a ping.
//
// The log has one warning for each cause of an outage, not for each ping, and says when the server
// is available again.
type serverWatch struct {
	ping func(context.Context) error // its errors say what to do
	log  zerolog.Logger
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	err     error // of the last ping
	reached bool  // ever
}

// watchServer returns the watch of a server, which ends when the process closes.
func (k *Kit) watchServer(server string, ping func(context.Context) error) *serverWatch {
	w := &serverWatch{
		log:  k.Log.With().Str(logging.Server, server).Logger(),
		stop: func() {},
		err:  errWaiting,
	}
	w.ping = func(ctx context.Context) error {
		err := ping(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		return explain(server, k.Settings, err, w.reached)
	}
	k.Process.OnClose(server+" watch", func(context.Context) error {
		w.stop()
		w.wg.Wait()
		return nil
	})
	return w
}

// start begins to ping. It is called once, at most.
func (w *serverWatch) start() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.wg.Go(func() { w.run(ctx) })
}

func (w *serverWatch) run(ctx context.Context) {
	causes := make(map[string]bool) // of the present outage, which were logged
	for ; ctx.Err() == nil; clock.Pause(ctx, watchEvery) {
		try, cancel := context.WithTimeout(ctx, health.CheckTimeout)
		err := w.ping(try)
		cancel()
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.err, w.reached = err, w.reached || err == nil
		w.mu.Unlock()
		switch {
		case err == nil && len(causes) > 0:
			w.log.Info().Msg("server available again")
			clear(causes)
		case err != nil:
			if c := cause(err); !causes[c] && len(causes) < maxCauses {
				causes[c] = true
				w.log.Warn().Err(err).Msg("server unavailable")
			}
		}
	}
}

// localPort is the end of a connection that differs between two attempts.
var localPort = regexp.MustCompile(`[^ ]+->`)

// cause is an error without what differs between two attempts. A server that does not answer is one
// cause: which part of an attempt takes the time is chance.
func cause(err error) string {
	if isTimeout(err) {
		return "timeout"
	}
	return localPort.ReplaceAllString(err.Error(), "")
}

// check returns the result of the last ping.
func (w *serverWatch) check(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// checkAtStart fails until the first success.
func (w *serverWatch) checkAtStart() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.reached:
		return nil
	case w.err == errWaiting: //nolint:errorlint // no ping has ended
		return errWaiting
	}
	return fmt.Errorf("%w: %w", errWaiting, w.err)
}
