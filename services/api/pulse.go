package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	beatEvery = 2 * time.Second
	// stoodStill is a pause between two beats as long as a request may take: what came before it is
	// over, whatever became of it.
	stoodStill = 10 * time.Second
	// wakingFor is how long after such a pause there may be requests from before it: they lie in
	// the connections and are read at once.
	wakingFor = 2 * time.Second
)

// pulse notices that the process stood still: frozen, or without a processor. What clients sent it
// meanwhile they have asked another process for since, and perhaps for the opposite after that:
// carried out now, it would undo what was confirmed to them. So writes are refused for a moment.
type pulse struct {
	began time.Time
	last  atomic.Int64 // beat, since began; 0: it does not beat
	woke  atomic.Int64 // at the end of the last pause, since began; 0: there was none
}

func newPulse() *pulse { return &pulse{began: time.Now().Add(-time.Nanosecond)} }

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
	defer p.last.Store(0)
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		p.beat()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *pulse) beat() {
	now := int64(time.Since(p.began))
	if last := p.last.Load(); last != 0 && now-last > int64(stoodStill) {
		p.woke.Store(now)
	}
	p.last.Store(now)
}

// waking tells whether a request may be from before a pause.
func (p *pulse) waking() bool {
	now, last, woke := int64(time.Since(p.began)), p.last.Load(), p.woke.Load()
	return last != 0 && now-last > int64(stoodStill) || woke != 0 && now-woke < int64(wakingFor)
}

// awake refuses writes that may be from before a pause. Reads harm nobody.
func (s *Service) awake(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && s.pulse.waking() {
			refuse(
				w,
				r,
				fault{
					status: http.StatusServiceUnavailable,
					msg:    "this API stood still for a while, and carries out nothing that was asked before: ask again",
				},
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}
