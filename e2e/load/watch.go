package load

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

// Sample has the number of callbacks and records at an instant of a phase.
type Sample struct {
	Second   float64 `json:"second"` // since the first due instant
	Received int64   `json:"received"`
	Recorded int64   `json:"recorded"`
}

// Backlog returns the number of callbacks without record.
func (s Sample) Backlog() int64 { return s.Received - s.Recorded }

// watch takes a sample each second until ctx ends.
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

// now reads the records before the callbacks, so that the backlog is never negative by the order of
// the reads.
func (w *watch) now(ctx context.Context) Sample {
	execs := w.c.Role(cluster.Executor)
	if len(execs) == 0 { // no executor reports records
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
