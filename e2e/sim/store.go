package sim

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

var (
	errUnavailable = errors.New("the store is unavailable")
	errAnswerLost  = errors.New("the store's answer is lost")
)

// frequentCalls are the polls that services make all the time and that rarely change anything.
// Without slow calls they take no time, which halves the cost of an idle simulation.
var frequentCalls = map[string]bool{
	"Now":           true,
	"LiveSessions":  true,
	"RenewSession":  true,
	"Changes":       true,
	"MinuteCounts":  true,
	"SliceBacklog":  true,
	"OldestOpen":    true,
	"ExpandBacklog": true,
	"Cursor":        true,
	"DueWork":       true,
	"RenewSlices":   true,
	"AckEvents":     true,
	"Overdue":       true,
}

// While the store is slow, this share of slow calls takes this many times as long: seconds, within
// which earlier reads must not be used any more (P5).
const crawlShare, crawlFactor = 0.1, 8

// deadlineContext has a deadline and never ends. A call takes no time in the store, and a
// cancelable context costs a goroutine per statement.
type deadlineContext struct {
	context.Context //nolint:containedctx // it is one
	at              time.Time
}

func (b deadlineContext) Deadline() (time.Time, bool) { return b.at, true }

// gatedStore is one process's access to the store. Its calls pass the gates of the process.
type gatedStore struct{ storeGates }

func newGatedStore(st store.Store, p *process) *gatedStore {
	return &gatedStore{storeGates{Store: &observedStore{Store: st, p: p}, p: p}}
}

// Release marks the deferred fires, although the request may not arrive.
func (s *gatedStore) Release(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
	attempts []timer.Attempt,
) ([]timer.Fire, error) {
	s.p.env.recorder.markDeferred(fires)
	return s.storeGates.Release(ctx, session, fires, attempts)
}

// gated0 makes a call that writes and returns nothing but an error.
//
//nolint:revive // of a process, but for the type parameters of the others
func gated0(
	p *process,
	ctx context.Context,
	call string,
	do func(context.Context) error,
) error {
	_, err := gated1(p, ctx, call, true, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, do(ctx)
	})
	return err
}

// gated2 makes a call that returns two values.
//
//nolint:revive // of a process, but for its type parameters
func gated2[A, B any](
	p *process,
	ctx context.Context,
	call string,
	writes bool,
	do func(context.Context) (A, B, error),
) (A, B, error) {
	type both struct {
		a A
		b B
	}
	out, err := gated1(p, ctx, call, writes, func(ctx context.Context) (both, error) {
		a, b, err := do(ctx)
		return both{a, b}, err
	})
	return out.a, out.b, err
}

// gated1 makes one call. Its request, its effect and its answer can each fail.
//
//nolint:revive // of a process, but for its type parameter
func gated1[T any](
	p *process,
	ctx context.Context,
	call string,
	writes bool,
	do func(context.Context) (T, error),
) (T, error) {
	var none T
	env := p.env
	if err := p.beforeCall(ctx, call); err != nil {
		return none, timer.Unavailable(call, err)
	}
	var draws [5]float64
	p.draw(draws[:])
	rates := env.storeErrorRates()
	sendDelay, replyDelay := rates.latency(draws[0])
	if replyDelay > 0 && rates.slow > healthy.slow && !frequentCalls[call] &&
		draws[4] < crawlShare {
		sendDelay *= crawlFactor
	}
	switch {
	case replyDelay > 0:
		clock.Pause(ctx, sendDelay)
	case !frequentCalls[call]:
		//nolint:forbidigo // a few ms, that need not end with ctx: at a third of the cost
		time.Sleep(sendDelay)
	}
	if err := p.awaitStore(ctx); err != nil {
		p.noteDisturbance()
		return none, timer.Unavailable(call, err)
	}
	if err := p.passArrival(draws[3] < 0.5); err != nil {
		return none, timer.Unavailable(call, err)
	}
	fail := rates.read
	if writes {
		fail = rates.before
	}
	if draws[1] < fail {
		p.noteDisturbance()
		return none, timer.Unavailable(call, errUnavailable)
	}
	out, err := do(deadlineContext{context.Background(), time.Now().Add(time.Second)})
	if replyDelay > 0 {
		clock.Pause(ctx, replyDelay)
	}
	if lerr := p.afterCall(call); lerr != nil {
		return none, timer.Unavailable(call, lerr)
	}
	if err == nil && (ctx.Err() != nil || writes && draws[2] < rates.after) {
		p.noteDisturbance()
		return none, timer.Unavailable(call, errAnswerLost)
	}
	return out, err
}

// awaitStore waits while the store does not answer this process, or returns an error.
func (p *process) awaitStore(ctx context.Context) error {
	for {
		p.mu.Lock()
		cut := p.cutOff
		p.mu.Unlock()
		away, hangs, over := p.env.storeOutage()
		switch {
		case !away && !cut:
			return nil
		case away && !hangs:
			return errUnavailable
		}
		if cut {
			over = nil
		}
		select {
		case <-over:
		case <-p.died:
			return errDead
		case <-time.After(hangPollInterval):
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller says what it was doing
		}
	}
}

const hangPollInterval = 100 * time.Millisecond
