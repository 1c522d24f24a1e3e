package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	lookPause     = time.Millisecond      // between two looks at what is active, at least
	exchangePause = 10 * time.Millisecond // between two exchanges, at least
	exchangeEvery = 50 * time.Millisecond // of an app that is active and has limits
	// while no app that is active has any: nothing is asked then, only forgotten.
	tidyEvery  = time.Second
	slotsEvery = 20 * time.Millisecond // of one that waits for slots that others have
	// of one that waits for permits: others leave it its turns for WaitTTL.
	waitEvery  = 100 * time.Millisecond
	renewEvery = SlotTTL / 4            // of one that only holds slots
	ahead      = 100 * time.Millisecond // for how long tokens are fetched ahead
	awayPause  = 250 * time.Millisecond // between tries while the ledger is away
	firstTurns = 21                     // a round of the default weights
	peakKept   = time.Second
	// after a refusal the ledger remembers what was wanted: whoever waits for a slot asks more
	// often.
	wantingFor = time.Second
)

// Run implements Gate. While no app is active it sleeps, and nearly while none of those has limits.
func (l *Limiter) Run(ctx context.Context) error {
	defer l.leave(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var from time.Time // no exchange before
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-timer.C:
		}
		if wait := lookPause - time.Since(looked); wait > 0 {
			clock.Pause(ctx, wait)
		}
		looked = time.Now()
		now := l.o.Now()
		var wishes []Demand
		var of []*app
		if !now.Before(from) {
			wishes, of = l.wishes(now)
		}
		if len(wishes) > 0 {
			pause := exchangePause
			if l.exchange(ctx, wishes, of, now) != nil {
				pause = awayPause
			}
			now = l.o.Now()
			from = now.Add(pause)
		}
		if at := l.look(now, from); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Millisecond))
		} else {
			timer.Stop()
		}
	}
}

// look lets start what may without an exchange, and returns when Run shall look again, the zero
// time while no app is active; from is when the next exchange may be.
func (l *Limiter) look(now, from time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.active {
		l.pump(a, now)
		at := now.Add(tidyEvery)
		if ask := a.askAt(now, l); !ask.IsZero() {
			at = later(ask, from)
		}
		// for what others end, or what our own part of the rate lets.
		if !a.list.empty() && (l.away || a.inUse >= l.share()) {
			at = earlier(at, now.Add(exchangePause))
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// exchange carries what is wanted now.
func (l *Limiter) exchange(ctx context.Context, wishes []Demand, of []*app, sent time.Time) error {
	call, cancel := context.WithTimeout(ctx, l.o.Timeout)
	grants, err := l.o.SharedState.Sync(call, l.o.Executor, wishes)
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
			l.pump(of[i], now)
		}
	}
	return nil
}

// wishes collects what is wanted of the ledger now, and begins to count anew.
func (l *Limiter) wishes(now time.Time) (wishes []Demand, of []*app) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.active {
		if at := a.askAt(now, l); !at.IsZero() && !at.After(now) {
			w := a.wish(now, l)
			w.App = name
			wishes, of = append(wishes, w), append(of, a)
		} else if a.inUse == 0 && !a.entered && a.used.rate(now) == 0 && a.list.empty() {
			delete(l.active, name)
			l.forget(name, a)
		}
	}
	return wishes, of
}

// askAt returns when the ledger is to be asked for an app, the zero time: not as things stand.
func (a *app) askAt(now time.Time, l *Limiter) time.Time {
	switch {
	case !a.limited():
		return time.Time{}
	case a.missedTokens > 0 || a.missedSlots > 0:
		return now
	case !a.list.empty() && a.canUse(l):
		switch {
		case a.exchanged.Before(a.since): // what comes at the same instant is asked for together
			return a.since.Add(askAgain)
		case a.short:
			return earlier(a.nextToken, a.exchanged.Add(waitEvery))
		case a.slotsShort:
			return a.exchanged.Add(slotsEvery)
		default:
			return a.exchanged.Add(exchangePause)
		}
	case a.used.rate(now) > 0:
		return a.exchanged.Add(exchangeEvery)
	case a.inUse > 0 || !a.list.empty():
		return a.exchanged.Add(renewEvery)
	case a.entered: // to leave
		return later(a.missing.Add(wantingFor), now)
	default:
		return time.Time{}
	}
}

// canUse tells whether what waits could start, had it permits.
func (a *app) canUse(l *Limiter) bool {
	return a.inUse < l.share() && (a.settings.Concurrent == 0 || a.inUse < a.settings.Concurrent)
}

// wish says what an app wants.
func (a *app) wish(now time.Time, l *Limiter) Demand {
	rate := a.used.rate(now)
	missed := a.missedTokens > 0 || a.missedSlots > 0
	active := rate > 0 || missed || a.inUse > 0 || !a.list.empty()
	w := Demand{Settings: a.settings, InUse: a.inUse}
	if active {
		w.Slots = a.wantSlots(now, l.o.Share)
	}
	if a.settings.Rate > 0 && active {
		a.lapse(now)
		most := a.settings.Burst + int(a.settings.Rate)
		w.Waiting, w.Starts = a.wantTurns(now, l, most)
		fetched := int(math.Ceil(rate * ahead.Seconds()))
		if a.settings.Rate < 1/ahead.Seconds() {
			fetched = 0 // what is fetched and not used is lost, and of so few none shall be
		}
		w.Tokens = min(max(a.missedTokens+fetched-a.tokens-len(a.turns), 0), most)
	}
	if now.Sub(a.exchanged) >= peakKept {
		a.peak = a.inUse
	}
	a.missedTokens, a.missedSlots = 0, 0
	a.exchanged = now
	a.asking, a.asked = true, a.inUse
	return w
}

// wantTurns returns how many of each priority wait for a permit, and how many in all could use one
// now.
func (a *app) wantTurns(now time.Time, l *Limiter, most int) (waiting [Priorities]int, starts int) {
	if !a.canUse(l) {
		return waiting, 0
	}
	starts = min(most, l.share()-a.inUse)
	if a.settings.Concurrent > 0 && a.slotsShort {
		starts = min(starts, a.freeSlots(now)+1+int(a.ended.rate(now)*ahead.Seconds()))
	}
	// first the others shall know what waits here, and we what waits there.
	if a.exchanged.Before(a.since) {
		starts = min(starts, firstTurns)
	}
	starts = max(starts-len(a.turns)-a.tokens, 0)
	for p := range waiting {
		waiting[p] = a.list.len(Priority(p))
	}
	return waiting, min(starts, a.waits())
}

// granted enters what the ledger gave. Its times count from when it was asked: that is on the safe
// side.
func (a *app) granted(w *Demand, g Grant, sent, now time.Time) {
	if w.Leaves() {
		a.entered, a.slots = false, 0
		return
	}
	a.entered = true
	a.executors = max(g.Executors, 1)
	if g.Tokens > 0 || len(g.Order) > 0 {
		a.tokens += g.Tokens
		a.turns = append(a.turns, g.Order...)
		a.tokensTill = sent.Add(TokenTTL)
	}
	a.short = len(g.Order) < w.Starts || g.Tokens < w.Tokens
	a.nextToken = now.Add(g.NextToken)
	// who asks first gets the next: that shall not always be the same.
	if a.short && a.executors > 1 {
		//nolint:mnd // little of what is between two
		most := min(askAgain, time.Duration(float64(time.Second)/a.settings.Rate)/4)
		a.nextToken = a.nextToken.Add(time.Duration(rand.Int64N(int64(most) + 1)))
	}
	a.slots, a.slotsTill, a.slotsShort = g.Slots, sent.Add(SlotTTL), g.Slots < w.Slots
}

// leave gives back what is held. ctx has ended.
func (l *Limiter) leave(ctx context.Context) {
	l.mu.Lock()
	var wishes []Demand
	for name, a := range l.apps {
		if a.entered {
			wishes = append(wishes, Demand{App: name, Settings: a.settings})
			a.entered, a.slots, a.tokens = false, 0, 0
		}
	}
	l.mu.Unlock()
	if len(wishes) == 0 {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Timeout)
	defer cancel()
	if _, err := l.o.SharedState.Sync(call, l.o.Executor, wishes); err != nil {
		l.o.Logger.Debug().Err(err).Msg("slots not given back, they lapse")
	}
}
