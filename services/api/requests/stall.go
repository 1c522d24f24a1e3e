package requests

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/services/api/problem"
)

const (
	stallCheckInterval = 2 * time.Second
	// stallThreshold is the pause between two ticks that counts as a stall. It is as long as a
	// request may take, so every request from before the stall is over.
	stallThreshold = 10 * time.Second
	// rejectPeriod is how long after a stall requests from before it may still arrive. They are
	// buffered in the connections and read at once.
	rejectPeriod = 2 * time.Second
)

// StallDetector detects that the process was frozen or got no CPU. Clients have since repeated
// their requests elsewhere, and may have confirmed the opposite after that. Executing an old
// request now would undo it. Writes are therefore refused for a moment.
type StallDetector struct {
	start    time.Time
	lastTick atomic.Int64 // since start; 0: it does not run
	stallEnd atomic.Int64 // end of the last stall, since start; 0: there was none
}

// NewStallDetector returns a detector. It detects nothing before Run.
func NewStallDetector() *StallDetector {
	return &StallDetector{start: time.Now().Add(-time.Nanosecond)}
}

// Run ticks until ctx ends.
func (p *StallDetector) Run(ctx context.Context) {
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

func (p *StallDetector) tick() {
	now := int64(time.Since(p.start))
	if lastTick := p.lastTick.Load(); lastTick != 0 && now-lastTick > int64(stallThreshold) {
		p.stallEnd.Store(now)
	}
	p.lastTick.Store(now)
}

// stalled returns whether a request may be from before a stall.
func (p *StallDetector) stalled() bool {
	now, lastTick, stallEnd := int64(time.Since(p.start)), p.lastTick.Load(), p.stallEnd.Load()
	return lastTick != 0 && now-lastTick > int64(stallThreshold) ||
		stallEnd != 0 && now-stallEnd < int64(rejectPeriod)
}

// Reject refuses writes that may be from before a stall. Reads do no harm.
func (p *StallDetector) Reject(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && p.stalled() {
			problem.Refuse(
				w,
				r,
				problem.Fault{
					Status: http.StatusServiceUnavailable,
					Msg:    "server was stalled; retry",
				},
			)
			return
		}
		next.ServeHTTP(w, r)
	})
}
