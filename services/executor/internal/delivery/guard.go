package delivery

import (
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/limit"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
)

// guard asks the breakers for each of several targets. In mode any a refused target is passed over;
// in mode all it waits for the next attempt.
type guard struct {
	d     *Deliverer
	entry *inflight.Entry

	mu      sync.Mutex
	sent    bool      // a target was called
	refused []string  // endpoints with an open breaker
	at      time.Time // the earliest time that one of them may be called
}

// Allow implements callback.Guard.
func (g *guard) Allow(t *timer.Target) (done func(*callback.Result), ok bool) {
	p := &Permit{d: g.d, endpoint: cache.EndpointOf(g.entry.Fire.AppID, t)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.endpoint != "" {
		var allowed limit.Decision
		if allowed, p.probe = g.d.opts.Breakers.Allow(p.endpoint); !allowed.OK {
			if g.refused = append(g.refused, p.endpoint); g.at.IsZero() || allowed.At.Before(g.at) {
				g.at = allowed.At
			}
			return nil, false
		}
	}
	g.sent = true
	return func(r *callback.Result) {
		p.report(r)
		p.done()
	}, true
}

// refusedSome returns whether a target was refused and another one called. The call has ended.
func (g *guard) refusedSome() bool { return g != nil && g.sent && len(g.refused) > 0 }

// Continue implements callback.Guard: session (P3) and state (P5) are checked for each target.
func (g *guard) Continue() bool {
	return g.entry.Epoch.Valid() && g.d.opts.Callable(g.entry)
}
