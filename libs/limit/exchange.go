package limit

import (
	"context"
	"math"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	exchangePause = 10 * time.Millisecond  // between two exchanges, at least
	exchangeEvery = 50 * time.Millisecond  // of an app that is active and has limits
	tidyEvery     = time.Second            // while no app that is active has any: nothing is asked then, only forgotten
	renewEvery    = SlotTTL / 4            // of one that only holds slots
	ahead         = 100 * time.Millisecond // for how long tokens are fetched ahead
	awayPause     = 250 * time.Millisecond // between tries while the ledger is away
	peakKept      = time.Second
	wantingFor    = time.Second // after a refusal the ledger remembers what was wanted: whoever waits for a slot asks more often
)

// Run implements Gate. While no app is active it sleeps, and nearly while none of those has limits: an app that becomes active without a refusal, which
// rings, has time until the next tick.
func (l *Limiter) Run(ctx context.Context) error {
	defer l.leave(ctx)
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	every := exchangeEvery
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.busy:
			if every != exchangeEvery { // a tick that comes is not put off: apps may become active all the time
				every = exchangeEvery
				tick.Reset(every)
			}
			continue
		case <-l.wake:
		case <-tick.C:
		}
		sent := l.o.Now()
		wishes, of, pace := l.wishes(sent)
		switch pace {
		case every:
		case 0:
			tick.Stop()
		default:
			tick.Reset(pace)
		}
		every = pace
		if len(wishes) == 0 {
			continue
		}
		next := exchangePause
		if l.exchange(ctx, wishes, of, sent) != nil {
			next = awayPause
		}
		clock.Pause(ctx, next)
	}
}

// exchange carries what is wanted now.
func (l *Limiter) exchange(ctx context.Context, wishes []Wish, of []*app, sent time.Time) error {
	call, cancel := context.WithTimeout(ctx, l.o.Timeout)
	grants, err := l.o.Ledger.Exchange(call, l.o.Executor, wishes)
	cancel()
	if ctx.Err() != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range of {
		a.asking = false
		if err != nil || l.apps[wishes[i].App] != a || a.settings != wishes[i].Settings {
			a.slots = min(a.slots, a.asked) // whatever the answer was, so many are ours
		}
	}
	if err != nil {
		l.met.errors.Inc()
		if !l.away {
			l.o.Logger.Warn().Err(err).Msg("limits cannot be shared, each executor takes its part")
		}
		l.away = true
		return err
	}
	if l.away {
		l.o.Logger.Info().Msg("limits are shared again")
		l.away = false
	}
	now := l.o.Now()
	for i, g := range grants {
		if l.apps[wishes[i].App] == of[i] && of[i].settings == wishes[i].Settings {
			of[i].granted(&wishes[i], g, sent, now)
		}
	}
	return nil
}

// wishes collects what is wanted of the ledger, and begins to count anew. next is when to look again, 0 while no app is active.
func (l *Limiter) wishes(now time.Time) (wishes []Wish, of []*app, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = tidyEvery
	for name, a := range l.active {
		w, ok := a.wish(now, l.o.Share)
		switch {
		case ok:
			w.App = name
			wishes, of = append(wishes, w), append(of, a)
		case a.inUse == 0 && !a.entered && a.used.rate(now) == 0:
			delete(l.active, name)
			l.forget(name, a, now)
			continue
		}
		if a.limited() {
			next = exchangeEvery
		}
	}
	if len(l.active) == 0 {
		next = 0
	}
	return wishes, of, next
}

// wish says what an app wants, if it is time to ask.
func (a *app) wish(now time.Time, share int) (Wish, bool) {
	if !a.limited() {
		return Wish{}, false
	}
	since := now.Sub(a.exchanged)
	missed := a.missedTokens > 0 || a.missedSlots > 0
	rate := a.used.rate(now)
	active := rate > 0 || missed || a.inUse > 0
	switch {
	case missed:
	case rate > 0 && since >= exchangeEvery:
	case a.inUse > 0 && since >= renewEvery:
	case a.entered && !active && now.Sub(a.missing) >= wantingFor: // leave
	default:
		return Wish{}, false
	}
	w := Wish{Settings: a.settings, InUse: a.inUse}
	if active {
		w.Slots = a.wantSlots(now, share)
	}
	if a.settings.Rate > 0 && active {
		if now.After(a.tokensTill) {
			a.tokens = 0
		}
		fetched := int(math.Ceil(rate * ahead.Seconds()))
		if a.settings.Rate < 1/ahead.Seconds() {
			fetched = 0 // what is fetched and not used is lost, and of so few none shall be
		}
		w.Tokens = max(a.missedTokens+fetched-a.tokens, 0)
		w.Tokens = min(w.Tokens, a.settings.Burst+int(a.settings.Rate))
	}
	if since >= peakKept {
		a.peak = a.inUse
	}
	a.missedTokens, a.missedSlots = 0, 0
	a.exchanged = now
	a.asking, a.asked = true, a.inUse
	return w, true
}

// granted enters what the ledger gave. Its times count from when it was asked: that is on the safe side.
func (a *app) granted(w *Wish, g Grant, sent, now time.Time) {
	if w.Tokens == 0 && w.Slots == 0 && w.InUse == 0 {
		a.entered, a.slots = false, 0
		return
	}
	a.entered = true
	a.executors = max(g.Executors, 1)
	if g.Tokens > 0 {
		a.tokens += g.Tokens
		a.tokensTill = sent.Add(TokenTTL)
	}
	a.short = g.Tokens < w.Tokens
	a.nextToken = now.Add(g.NextToken)
	a.slots, a.slotsTill, a.slotsShort = g.Slots, sent.Add(SlotTTL), g.Slots < w.Slots
}

// leave gives back what is held. ctx has ended.
func (l *Limiter) leave(ctx context.Context) {
	l.mu.Lock()
	var wishes []Wish
	for name, a := range l.apps {
		if a.entered {
			wishes = append(wishes, Wish{App: name, Settings: a.settings})
			a.entered, a.slots, a.tokens = false, 0, 0
		}
	}
	l.mu.Unlock()
	if len(wishes) == 0 {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Timeout)
	defer cancel()
	if _, err := l.o.Ledger.Exchange(call, l.o.Executor, wishes); err != nil {
		l.o.Logger.Debug().Err(err).Msg("slots not given back, they lapse")
	}
}
