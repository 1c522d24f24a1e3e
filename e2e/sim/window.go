package sim

import (
	"context"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// rangeCall is a frequent call (see frequentCalls): it takes no time unless it is slow. Puts take
// time, so that either may be first.
const rangeCall = "Range"

// gatedWindow is one process's access to the window.
type gatedWindow struct {
	window.Window // shared

	p *process
}

func (g *gatedWindow) call(
	ctx context.Context,
	name string,
	do func(lost func() bool) error,
) error {
	if err := g.p.beforeCall(ctx, name); err != nil {
		return timer.Unavailable(name, err)
	}
	var draws [3]float64
	g.p.draw(draws[:])
	sendDelay, replyDelay := healthy.latency(draws[0])
	if name != rangeCall || replyDelay > 0 {
		clock.Pause(ctx, sendDelay)
	}
	if err := g.p.passArrival(draws[1] < 0.5); err != nil {
		return timer.Unavailable(name, err)
	}
	fails, share := g.p.env.windowErrorRates()
	if draws[2] < fails/2 {
		return timer.Unavailable(name, errUnavailable)
	}
	err := do(func() bool {
		var d [1]float64
		if share > 0 {
			g.p.draw(d[:])
		}
		return d[0] < share
	})
	if replyDelay > 0 {
		clock.Pause(ctx, replyDelay)
	}
	if gone := g.p.afterCall(name); gone != nil {
		return timer.Unavailable(name, gone)
	}
	if err == nil && draws[2] < fails {
		return timer.Unavailable(name, errAnswerLost)
	}
	return err
}

func (g *gatedWindow) Put(ctx context.Context, fires []timer.Fire) error {
	return g.call(ctx, "Put", func(lost func() bool) error {
		var kept []timer.Fire
		for i := range fires {
			if !lost() {
				kept = append(kept, fires[i])
			}
		}
		return g.Window.Put(ctx, kept)
	})
}

func (g *gatedWindow) Open(ctx context.Context, s window.Slice) (gen string, err error) {
	err = g.call(ctx, "Open", func(func() bool) error {
		gen, err = g.Window.Open(ctx, s)
		return err
	})
	return gen, err
}

func (g *gatedWindow) Range(
	ctx context.Context,
	s window.Slice,
	fromMS, toMS int64,
	limit int,
) (page window.Page, err error) {
	err = g.call(ctx, rangeCall, func(func() bool) error {
		page, err = g.Window.Range(ctx, s, fromMS, toMS, limit)
		return err
	})
	return page, err
}

func (g *gatedWindow) Drop(ctx context.Context, s window.Slice) error {
	return g.call(ctx, "Drop", func(func() bool) error { return g.Window.Drop(ctx, s) })
}
