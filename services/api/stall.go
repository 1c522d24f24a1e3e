package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	stallCheckInterval = 2 * time.Second
	// stallThreshold is a pause between two beats as long as a request may take: what came before it is
	// over, whatever became of it.
	stallThreshold = 10 * time.Second
	// rejectPeriod is how long after such a pause there may be requests from before it: they lie in
	// the connections and are read at once.
	rejectPeriod = 2 * time.Second
)

// stallDetector notices that the process stood still: frozen, or without a processor. What clients sent it
// meanwhile they have asked another process for since, and perhaps for the opposite after that:
// carried out now, it would undo what was confirmed to them. So writes are refused for a moment.
type stallDetector struct {
	start    time.Time
	lastTick atomic.Int64 // beat, since began; 0: it does not beat
	stallEnd atomic.Int64 // at the end of the last pause, since began; 0: there was none
}

func newStallDetector() *stallDetector {
	return &stallDetector{start: time.Now().Add(-time.Nanosecond)}
}

// run beats until ctx ends.
func (p *stallDetector) run(ctx context.Context) {
	defer p.lastTick.Store(0)
	ticker := time.NewTicker(stallCheckInterval)
	defer ticker.Stop()
	for {
		p.tick()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *stallDetector) tick() {
	now := int64(time.Since(p.start))
	if lastTick := p.lastTick.Load(); lastTick != 0 && now-lastTick > int64(stallThreshold) {
		p.stallEnd.Store(now)
	}
	p.lastTick.Store(now)
}

// stalled tells whether a request may be from before a pause.
func (p *stallDetector) stalled() bool {
	now, lastTick, stallEnd := int64(time.Since(p.start)), p.lastTick.Load(), p.stallEnd.Load()
	return lastTick != 0 && now-lastTick > int64(stallThreshold) ||
		stallEnd != 0 && now-stallEnd < int64(rejectPeriod)
}

// rejectAfterStall refuses writes that may be from before a pause. Reads harm nobody.
func (s *Service) rejectAfterStall(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && s.stall.stalled() {
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
