// Package batch groups concurrent calls into one. A batch contains the items that arrive while as many
// calls run as may, and those that arrive within Wait.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is returned by calls on a closed group.
var ErrClosed = errors.New("batch group is closed")

// Options configure a Group.
type Options struct {
	Max         int           // items per call; at least 1
	Wait        time.Duration // how long the first item of a batch waits for others
	Concurrency int           // concurrent calls; at least 1
	Timeout     time.Duration // of one call; 0 means none
}

// Group gathers the items of concurrent callers. A caller may stop waiting. If its item is not yet
// part of a call, the item is dropped. A call is cancelled once none of its callers waits any more.
// Otherwise an item would be processed at any time within Timeout, also after what its caller asked
// for next, perhaps elsewhere.
type Group[In, Out any] struct {
	opts  Options
	do    func(context.Context, []In) ([]Out, error)
	items chan item[In, Out]
	turn  chan struct{} // capacity 1: held by who fills a batch, so that there is one at a time
	done  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
}

type item[In, Out any] struct {
	ctx context.Context //nolint:containedctx // of the caller, to see whether it still waits
	in  In
	out chan answer[Out]
}

// abandoned reports whether nobody waits for the item any more. It compares with the clock, because
// after a stall of the process the timers of contexts may fire late.
func (it item[In, Out]) abandoned() bool {
	at, ok := it.ctx.Deadline()
	return it.ctx.Err() != nil || ok && !time.Now().Before(at)
}

type answer[Out any] struct {
	out Out
	err error
}

// New starts a group. do gets between 1 and Max items, and returns one result per item in order, or
// one error for all.
func New[In, Out any](opts Options, do func(context.Context, []In) ([]Out, error)) *Group[In, Out] {
	opts.Max, opts.Concurrency = max(opts.Max, 1), max(opts.Concurrency, 1)
	g := &Group[In, Out]{
		opts:  opts,
		do:    do,
		items: make(chan item[In, Out]),
		turn:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	for range opts.Concurrency {
		g.wg.Go(g.loop)
	}
	return g
}

// Do adds an item and waits for its result.
func (g *Group[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	var none Out
	it := item[In, Out]{ctx: ctx, in: in, out: make(chan answer[Out], 1)}
	select {
	case g.items <- it:
	case <-g.done:
		return none, ErrClosed
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	select {
	case a := <-it.out:
		return a.out, a.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// Close rejects new items and waits for the accepted ones.
func (g *Group[In, Out]) Close() {
	g.once.Do(func() { close(g.done) })
	g.wg.Wait()
}

func (g *Group[In, Out]) loop() {
	batch := make([]item[In, Out], 0, g.opts.Max)
	for {
		select {
		case g.turn <- struct{}{}:
		case <-g.done:
			return
		}
		select {
		case it := <-g.items:
			batch = g.fill(append(batch[:0], it))
			<-g.turn
			g.run(batch)
		case <-g.done:
			<-g.turn
			return
		}
	}
}

func (g *Group[In, Out]) fill(batch []item[In, Out]) []item[In, Out] {
	if g.opts.Max == 1 {
		return batch
	}
	timer := time.NewTimer(g.opts.Wait)
	defer timer.Stop()
	for len(batch) < g.opts.Max {
		select {
		case it := <-g.items:
			batch = append(batch, it)
		case <-timer.C:
			return batch
		case <-g.done:
			return batch
		}
	}
	return batch
}

func (g *Group[In, Out]) run(batch []item[In, Out]) {
	batch = slices.DeleteFunc(batch, func(it item[In, Out]) bool {
		abandoned := it.abandoned()
		if abandoned {
			it.out <- answer[Out]{err: context.DeadlineExceeded}
		}
		return abandoned
	})
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if g.opts.Timeout > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, g.opts.Timeout)
		defer end()
	}
	var waiting atomic.Int64
	waiting.Store(int64(len(batch)))
	ins := make([]In, len(batch))
	for i, it := range batch {
		ins[i] = it.in
		stop := context.AfterFunc(it.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})
		defer stop()
	}
	outs, err := g.do(ctx, ins)
	if err == nil && len(outs) != len(batch) {
		err = fmt.Errorf("batch of %d items returned %d results", len(batch), len(outs))
	}
	for i, it := range batch {
		a := answer[Out]{err: err}
		if err == nil {
			a.out = outs[i]
		}
		it.out <- a
	}
}
