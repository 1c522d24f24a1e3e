package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
)

const (
	minPumpInterval = time.Millisecond      // minimum between two passes over the active apps
	minSyncInterval = 10 * time.Millisecond // minimum between two calls of Sync
	syncEvery       = 50 * time.Millisecond // for an active app with limits
	// tidyEvery applies while no active app has limits. Nothing is synchronized then; inactive apps
	// are only removed.
	tidyEvery  = time.Second
	slotsEvery = 20 * time.Millisecond // for an app that waits for slots of other executors
	// waitEvery is for an app that waits for tokens. Others reserve its share for WaitTTL.
	waitEvery     = 100 * time.Millisecond
	renewEvery    = SlotTTL / 4            // for an app that only holds slots
	prefetchAhead = 100 * time.Millisecond // period for which tokens are fetched ahead
	firstStarts   = 21                     // one round of the default weights
)

// Run implements Admission. It sleeps while no app is active, and wakes only rarely while no active
// app has limits.
func (l *Limiter) Run(ctx context.Context) error {
	defer l.releaseAll(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var from time.Time // earliest time of the next Sync
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
		now := time.Now()
		var demands []Demand
		var of []*app
		if !now.Before(from) {
			demands, of = l.demands(now)
		}
		if len(demands) > 0 {
			l.syncShared(ctx, demands, of, now)
			now = time.Now()
			from = now.Add(minSyncInterval)
		}
		if at := l.pumpAll(now, from); !at.IsZero() {
			timer.Reset(max(at.Sub(now), time.Millisecond))
		} else {
			timer.Stop()
		}
	}
}

// pumpAll starts the waiting fires that need no Sync. It returns when Run must continue, or the
// zero time while no app is active. from is the earliest time of the next Sync.
func (l *Limiter) pumpAll(now, from time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.active {
		l.pump(a, now)
		at := now.Add(tidyEvery)
		if ask := a.nextSyncAt(now, l); !ask.IsZero() {
			at = later(ask, from)
		}
		// Calls that end, or the local rate, may permit a start.
		if !a.list.empty() && (a.unavailable || a.inUse >= l.share()) {
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

// syncShared sends the demands and applies the grants.
func (l *Limiter) syncShared(ctx context.Context, demands []Demand, of []*app, sent time.Time) {
	call, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	grants, err := l.opts.SharedState.Sync(call, l.opts.Executor, demands)
	cancel()
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var failed []*app
	why := err
	for i, a := range of {
		current := l.apps[demands[i].App] == a && a.settings == demands[i].Settings
		grant := Grant{Err: err}
		if err == nil {
			grant = grants[i]
		}
		if grant.Err != nil || !current {
			// whatever the shared state decided, these slots are ours
			a.slots = min(a.slots, a.kept)
		}
		a.kept = math.MaxInt
		if grant.Err != nil {
			failed, why = append(failed, a), grant.Err
			continue
		}
		a.unavailable = false
		if current {
			if l.outage.executors > 0 {
				l.outage.executors = max(l.outage.executors, grant.Executors)
			}
			a.granted(&demands[i], grant, sent, now)
			l.pump(a, now)
		}
	}
	l.failed(failed, len(of)-len(failed), why, now)
}

// demands collects the demands that are due, and resets their counters.
func (l *Limiter) demands(now time.Time) (demands []Demand, of []*app) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.active {
		if at := a.nextSyncAt(now, l); !at.IsZero() && !at.After(now) {
			w := a.demand(now, l)
			w.App = name
			demands, of = append(demands, w), append(of, a)
		} else if a.inUse == 0 && !a.registered && a.used.rate(now) == 0 && a.list.empty() &&
			a.list.countDeferred(now) == 0 {
			delete(l.active, name)
			l.forget(name, a, now)
		}
	}
	return demands, of
}

// nextSyncAt returns when the app needs the next Sync, or the zero time if it needs none as things
// are. Apps for which the shared state is unavailable share their attempts.
func (a *app) nextSyncAt(now time.Time, l *Limiter) time.Time {
	at := a.wantsSyncAt(now, l)
	if a.unavailable && !at.IsZero() {
		at = later(at, l.outage.next)
	}
	return at
}

func (a *app) wantsSyncAt(now time.Time, l *Limiter) time.Time {
	switch {
	case !a.limited():
		if a.registered && a.inUse == 0 && a.list.empty() { // to release the app
			return now
		}
		return time.Time{}
	case !a.list.empty() && a.canUse(l):
		switch {
		case a.lastSync.Before(a.waitingSince): // simultaneous arrivals share one Sync
			return a.waitingSince.Add(gatherDelay)
		case !a.nextToken.IsZero():
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
	case a.registered: // to release the app
		return now
	default:
		return time.Time{}
	}
}

// canUse reports whether a waiting fire could start if it had a token.
func (a *app) canUse(l *Limiter) bool {
	return a.inUse < l.share() && (a.settings.Concurrent == 0 || a.inUse < a.settings.Concurrent)
}

// demand returns the demand of an app, and resets its counters.
func (a *app) demand(now time.Time, l *Limiter) Demand {
	rate := a.used.rate(now)
	active := rate > 0 || a.inUse > 0 || !a.list.empty()
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
			fetched = 0 // Unused tokens are lost, and with so low a rate none must be.
		}
		w.Tokens = min(max(fetched-a.tokens-len(a.order), 0), most)
	}
	a.lastSync = now
	a.kept = a.inUse
	return w
}

// wantStarts returns how many fires of each priority wait for a token, and how many of them could
// use one before it expires.
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
		ends := a.ended.rate(now)
		slots := a.freeSlots(now) + int(ends*prefetchAhead.Seconds())
		if ends*TokenTTL.Seconds() >= 1 { // a call is likely to end in time
			slots++
		}
		if slots == 0 {
			return waiting, 0 // tokens would expire here, and other executors may use them
		}
		starts = min(starts, slots)
	}
	// First, each executor must learn what waits at the others.
	if a.lastSync.Before(a.waitingSince) {
		starts = min(starts, firstStarts)
	}
	starts = max(starts-len(a.order)-a.tokens, 0)
	for p := range waiting {
		waiting[p] = a.list.fires[p].Len()
	}
	return waiting, min(starts, a.list.len())
}

// granted applies a grant. Its times count from when the demand was sent, which is the safe side.
func (a *app) granted(w *Demand, g Grant, sent, now time.Time) {
	if w.IsEmpty() { // what was short then says nothing about the next time
		a.registered, a.slots, a.slotsShort, a.nextToken = false, 0, false, time.Time{}
		return
	}
	a.registered = true
	a.executors, a.answered = max(g.Executors, 1), true
	if g.Tokens > 0 || len(g.Order) > 0 {
		a.tokens += g.Tokens
		a.order = append(a.order, g.Order...)
		a.tokensUntil = sent.Add(TokenTTL)
	}
	short := len(g.Order) < w.Starts || g.Tokens < w.Tokens
	if a.nextToken = (time.Time{}); short {
		a.nextToken = now.Add(g.NextToken)
	}
	// The first to ask gets the next token, which must not always be the same executor.
	if short && a.executors > 1 {
		//nolint:mnd // little of what is between two
		most := min(gatherDelay, time.Duration(float64(time.Second)/a.settings.Rate)/4)
		a.nextToken = a.nextToken.Add(time.Duration(rand.Int64N(int64(most) + 1)))
	}
	a.slots, a.slotsUntil, a.slotsShort = g.Slots, sent.Add(SlotTTL), g.Slots < w.Slots
}

// releaseAll returns all permits to the shared state. ctx has ended.
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
		l.opts.Logger.Debug().Err(err).Msg("slots not released, they will expire")
	}
}
