package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	minPumpInterval = time.Millisecond      // between two looks at what is active, at least
	minSyncInterval = 10 * time.Millisecond // between two exchanges, at least
	syncEvery       = 50 * time.Millisecond // of an app that is active and has limits
	// while no app that is active has any: nothing is asked then, only forgotten.
	tidyEvery  = time.Second
	slotsEvery = 20 * time.Millisecond // of one that waits for slots that others have
	// of one that waits for permits: others leave it its turns for WaitTTL.
	waitEvery        = 100 * time.Millisecond
	renewEvery       = SlotTTL / 4            // of one that only holds slots
	prefetchAhead    = 100 * time.Millisecond // for how long tokens are fetched ahead
	unavailablePause = 250 * time.Millisecond // between tries while the ledger is away
	firstStarts      = 21                     // a round of the default weights
	peakWindow       = time.Second
	// after a refusal the ledger remembers what was wanted: whoever waits for a slot asks more
	// often.
	shortageMemory = time.Second
)

// Run implements Gate. While no app is active it sleeps, and nearly while none of those has limits.
func (l *Limiter) Run(ctx context.Context) error {
	defer l.releaseAll(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var from time.Time // no exchange before
	var lastPump time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-timer.C:
		}
		if wait := minPumpInterval - time.Since(lastPump); wait > 0 {
			clock.Pause(ctx, wait)
		}
		lastPump = time.Now()
		now := l.opts.Now()
		var demands []Demand
		var of []*app
		if !now.Before(from) {
			demands, of = l.demands(now)
		}
		if len(demands) > 0 {
			pause := minSyncInterval
			if l.syncShared(ctx, demands, of, now) != nil {
				pause = unavailablePause
			}
			now = l.opts.Now()
			from = now.Add(pause)
		}
		if at := l.pumpAll(now, from); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Millisecond))
		} else {
			timer.Stop()
		}
	}
}

// pumpAll lets start what may without an exchange, and returns when Run shall look again, the zero
// time while no app is active; from is when the next exchange may be.
func (l *Limiter) pumpAll(now, from time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.active {
		l.pump(a, now)
		at := now.Add(tidyEvery)
		if ask := a.nextSyncAt(now, l); !ask.IsZero() {
			at = later(ask, from)
		}
		// for what others end, or what our own part of the rate lets.
		if !a.list.empty() && (l.unavailable || a.inUse >= l.share()) {
			at = earlier(at, now.Add(minSyncInterval))
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

// syncShared carries what is wanted now.
func (l *Limiter) syncShared(
	ctx context.Context,
	demands []Demand,
	of []*app,
	sent time.Time,
) error {
	call, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	grants, err := l.opts.SharedState.Sync(call, l.opts.Executor, demands)
	cancel()
	if ctx.Err() != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, a := range of {
		a.syncing = false
		if err != nil || l.apps[demands[i].App] != a || a.settings != demands[i].Settings {
			a.slots = min(a.slots, a.inUseAtSync) // whatever the answer was, so many are ours
		}
	}
	if err != nil {
		l.metrics.errors.Inc()
		if !l.unavailable {
			l.opts.Logger.Warn().
				Err(err).
				Msg("limits cannot be shared, each executor takes its part")
		}
		l.unavailable = true
		return err
	}
	if l.unavailable {
		l.opts.Logger.Info().Msg("limits are shared again")
		l.unavailable = false
	}
	now := l.opts.Now()
	for i, g := range grants {
		if l.apps[demands[i].App] == of[i] && of[i].settings == demands[i].Settings {
			of[i].granted(&demands[i], g, sent, now)
			l.pump(of[i], now)
		}
	}
	return nil
}

// demands collects what is wanted of the ledger now, and begins to count anew.
func (l *Limiter) demands(now time.Time) (demands []Demand, of []*app) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.active {
		if at := a.nextSyncAt(now, l); !at.IsZero() && !at.After(now) {
			w := a.demand(now, l)
			w.App = name
			demands, of = append(demands, w), append(of, a)
		} else if a.inUse == 0 && !a.registered && a.used.rate(now) == 0 && a.list.empty() {
			delete(l.active, name)
			l.forget(name, a)
		}
	}
	return demands, of
}

// nextSyncAt returns when the ledger is to be asked for an app, the zero time: not as things stand.
func (a *app) nextSyncAt(now time.Time, l *Limiter) time.Time {
	switch {
	case !a.limited():
		return time.Time{}
	case a.missedTokens > 0 || a.missedSlots > 0:
		return now
	case !a.list.empty() && a.canUse(l):
		switch {
		case a.lastSync.Before(a.waitingSince): // what comes at the same instant is asked for together
			return a.waitingSince.Add(gatherDelay)
		case a.tokensShort:
			return earlier(a.nextToken, a.lastSync.Add(waitEvery))
		case a.slotsShort:
			return a.lastSync.Add(slotsEvery)
		default:
			return a.lastSync.Add(minSyncInterval)
		}
	case a.used.rate(now) > 0:
		return a.lastSync.Add(syncEvery)
	case a.inUse > 0 || !a.list.empty():
		return a.lastSync.Add(renewEvery)
	case a.registered: // to leave
		return later(a.lastSlotShortage.Add(shortageMemory), now)
	default:
		return time.Time{}
	}
}

// canUse tells whether what waits could start, had it permits.
func (a *app) canUse(l *Limiter) bool {
	return a.inUse < l.share() && (a.settings.Concurrent == 0 || a.inUse < a.settings.Concurrent)
}

// demand says what an app wants.
func (a *app) demand(now time.Time, l *Limiter) Demand {
	rate := a.used.rate(now)
	missed := a.missedTokens > 0 || a.missedSlots > 0
	active := rate > 0 || missed || a.inUse > 0 || !a.list.empty()
	w := Demand{Settings: a.settings, InUse: a.inUse}
	if active {
		w.Slots = a.wantSlots(now, l.opts.Share)
	}
	if a.settings.Rate > 0 && active {
		a.dropExpired(now)
		most := a.settings.Burst + int(a.settings.Rate)
		w.Waiting, w.Starts = a.wantStarts(now, l, most)
		fetched := int(math.Ceil(rate * prefetchAhead.Seconds()))
		if a.settings.Rate < 1/prefetchAhead.Seconds() {
			fetched = 0 // what is fetched and not used is lost, and of so few none shall be
		}
		w.Tokens = min(max(a.missedTokens+fetched-a.tokens-len(a.order), 0), most)
	}
	if now.Sub(a.lastSync) >= peakWindow {
		a.peak = a.inUse
	}
	a.missedTokens, a.missedSlots = 0, 0
	a.lastSync = now
	a.syncing, a.inUseAtSync = true, a.inUse
	return w
}

// wantStarts returns how many of each priority wait for a permit, and how many in all could use one
// now.
func (a *app) wantStarts(
	now time.Time,
	l *Limiter,
	most int,
) (waiting [Priorities]int, starts int) {
	if !a.canUse(l) {
		return waiting, 0
	}
	starts = min(most, l.share()-a.inUse)
	if a.settings.Concurrent > 0 && a.slotsShort {
		starts = min(starts, a.freeSlots(now)+1+int(a.ended.rate(now)*prefetchAhead.Seconds()))
	}
	// first the others shall know what waits here, and we what waits there.
	if a.lastSync.Before(a.waitingSince) {
		starts = min(starts, firstStarts)
	}
	starts = max(starts-len(a.order)-a.tokens, 0)
	for p := range waiting {
		waiting[p] = a.list.len(Priority(p))
	}
	return waiting, min(starts, a.waits())
}

// granted enters what the ledger gave. Its times count from when it was asked: that is on the safe
// side.
func (a *app) granted(w *Demand, g Grant, sent, now time.Time) {
	if w.IsEmpty() {
		a.registered, a.slots = false, 0
		return
	}
	a.registered = true
	a.executors = max(g.Executors, 1)
	if g.Tokens > 0 || len(g.Order) > 0 {
		a.tokens += g.Tokens
		a.order = append(a.order, g.Order...)
		a.tokensUntil = sent.Add(TokenTTL)
	}
	a.tokensShort = len(g.Order) < w.Starts || g.Tokens < w.Tokens
	a.nextToken = now.Add(g.NextToken)
	// who asks first gets the next: that shall not always be the same.
	if a.tokensShort && a.executors > 1 {
		//nolint:mnd // little of what is between two
		most := min(gatherDelay, time.Duration(float64(time.Second)/a.settings.Rate)/4)
		a.nextToken = a.nextToken.Add(time.Duration(rand.Int64N(int64(most) + 1)))
	}
	a.slots, a.slotsUntil, a.slotsShort = g.Slots, sent.Add(SlotTTL), g.Slots < w.Slots
}

// releaseAll gives back what is held. ctx has ended.
func (l *Limiter) releaseAll(ctx context.Context) {
	l.mu.Lock()
	var demands []Demand
	for name, a := range l.apps {
		if a.registered {
			demands = append(demands, Demand{App: name, Settings: a.settings})
			a.registered, a.slots, a.tokens = false, 0, 0
		}
	}
	l.mu.Unlock()
	if len(demands) == 0 {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.opts.Timeout)
	defer cancel()
	if _, err := l.opts.SharedState.Sync(call, l.opts.Executor, demands); err != nil {
		l.opts.Logger.Debug().Err(err).Msg("slots not given back, they lapse")
	}
}
