package load

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

// Sample is how far callbacks and their records were at a moment of a phase.
type Sample struct {
	Second   float64 `json:"second"` // since the first instant due
	Received int64   `json:"received"`
	Recorded int64   `json:"recorded"`
}

// Backlog is how many callbacks had no record yet.
func (s Sample) Backlog() int64 { return s.Received - s.Recorded }

// watch samples each second until ctx ends.
type watch struct {
	c    cluster.Cluster
	rcv  *receiver.Receiver
	base Sample
}

func newWatch(ctx context.Context, c cluster.Cluster, rcv *receiver.Receiver) *watch {
	w := &watch{c: c, rcv: rcv}
	w.base = w.now(ctx)
	return w
}

// now reads what was recorded before what was received: what it says is never behind because of the
// order of the questions.
func (w *watch) now(ctx context.Context) Sample {
	execs := w.c.Role(cluster.Executor)
	if len(execs) == 0 { // nobody tells
		n := w.rcv.Count() - w.base.Received
		return Sample{Received: n, Recorded: n}
	}
	recorded := 0.0 // skipped fires were not received
	for _, outcome := range []string{`outcome="delivered"`, `outcome="failed"`} {
		recorded += cluster.Sum(ctx, execs, "carillon_fires_total", outcome)
	}
	return Sample{
		Received: w.rcv.Count() - w.base.Received,
		Recorded: int64(recorded) - w.base.Recorded,
	}
}

func (w *watch) run(ctx context.Context, first time.Time) []Sample {
	var all []Sample
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return all
		case <-tick.C:
			if s := w.now(ctx); ctx.Err() == nil {
				s.Second = time.Since(first).Seconds()
				all = append(all, s)
			}
		}
	}
}
