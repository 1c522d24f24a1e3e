package limit

import (
	"math"
	"time"
)

// app is the limiter's state of one app.
type app struct {
	settings Settings
	inUse    int

	tokens      int        // tokens for any fire
	order       []Priority // tokens for waiting fires, by priority, in order of use
	tokensUntil time.Time
	slots       int // call slots: the limit of concurrent calls, as granted
	slotsUntil  time.Time
	slotsShort  bool // the last grant had fewer slots than demanded
	// nextToken is when the next token is expected. It is zero if the last grant had all tokens
	// that were demanded.
	nextToken time.Time
	executors int // executors that share the limits; at least 1

	unavailable bool // the last Sync failed for the app
	answered    bool // the shared state has told the number of executors

	// kept is how many slots the running Sync leaves here, whatever it decides: those of the calls
	// that ran when it began. While no Sync is running it is unlimited.
	kept         int
	peak         peak // most concurrent calls lately
	used         meter
	ended        meter
	lastProgress time.Time // when a call last ended, or began while none ran
	lastSync     time.Time
	registered   bool // the shared state knows this executor for the app

	// localTokens are own tokens while the shared state is unavailable. Calls before count, too, so
	// an executor that has used its part gets no burst when that begins.
	localTokens   float64
	localTokensAt time.Time

	list         waitList
	waitingSince time.Time     // arrival of the first waiting fire
	hold         time.Duration // the longest Hold of the waiting fires

	spares spares
}

func newApp(s Settings, now time.Time) *app {
	return &app{
		settings:      s,
		executors:     1,
		kept:          math.MaxInt,
		localTokensAt: now,
		used:          meter{from: now},
		ended:         meter{from: now},
	}
}

func (a *app) limited() bool { return a.settings != (Settings{}) }

// set applies new settings. It discards the permits of the old ones. Fires that were deferred by them
// stay known, because not all may be found at once.
func (a *app) set(s Settings, now time.Time) {
	a.settings = s
	a.spares.lookSoon(now)
	a.tokens, a.order, a.nextToken = 0, nil, time.Time{}
	a.slots, a.slotsShort = min(a.slots, s.Concurrent), false
	a.localTokens, a.localTokensAt = 0, now
	a.lastSync = time.Time{}
}

// refusal is why a call cannot start.
type refusal struct {
	label string
	known bool // nothing is free now; otherwise the shared state may have permits
}

var (
	byShare       = &refusal{label: "share", known: true}
	byQueue       = &refusal{label: "queue", known: true}
	bySlots       = &refusal{label: "concurrent", known: true}
	byTokens      = &refusal{label: "rate", known: true}
	byUnavailable = &refusal{label: "unavailable", known: true}
	unknownYet    = &refusal{label: "fetch"}
)

// refuse returns why a call cannot start now, or nil if it can.
func (a *app) refuse(now time.Time, l *Limiter) *refusal {
	if a.inUse >= l.share() {
		return byShare
	}
	if !a.limited() {
		return nil
	}
	if a.unavailable {
		return a.refuseUnavailable(now)
	}
	if bySlot := a.refuseSlot(now); bySlot != nil {
		return bySlot
	}
	return a.refuseToken(now)
}

// share returns how many concurrent calls any app may have in this executor now.
func (l *Limiter) share() int {
	most := math.MaxInt
	if l.opts.Share > 0 {
		most = l.opts.Share
	}
	if l.opts.Calls > 0 {
		most = min(most, max(1, l.opts.Calls-l.inUse-l.promised))
	}
	return most
}

func (a *app) refuseSlot(now time.Time) *refusal {
	most := a.settings.Concurrent
	if most == 0 {
		return nil
	}
	have := a.slots
	if now.After(a.slotsUntil) {
		have = 0
	}
	switch {
	case a.inUse < min(have, most):
		if a.inUse >= a.kept {
			return unknownYet // the running Sync may give the spare slots to another executor
		}
		return nil
	case a.inUse >= most || a.slotsShort:
		return bySlots
	}
	return unknownYet
}

func (a *app) refuseToken(now time.Time) *refusal {
	if a.settings.Rate == 0 {
		return nil
	}
	a.dropExpired(now)
	if a.tokens > 0 || len(a.order) > 0 {
		return nil
	}
	if now.Before(a.nextToken.Add(gatherDelay)) {
		return byTokens
	}
	return unknownYet
}

// freeSlots returns how many more calls may start with the granted slots.
func (a *app) freeSlots(now time.Time) int {
	if now.After(a.slotsUntil) {
		return 0
	}
	return max(min(a.slots, a.settings.Concurrent)-a.inUse, 0)
}

// dropExpired discards tokens that were not used in time.
func (a *app) dropExpired(now time.Time) {
	if now.After(a.tokensUntil) {
		a.tokens, a.order = 0, nil
	}
}

// refuseUnavailable decides by this executor's part of the limits.
func (a *app) refuseUnavailable(now time.Time) *refusal {
	if c := a.settings.Concurrent; c > 0 && a.inUse >= max(1, c/a.executors) {
		return byUnavailable
	}
	if a.settings.Rate > 0 {
		a.fillLocal(now)
		if a.localTokens < 1 {
			return byUnavailable
		}
	}
	return nil
}

// fillLocal adds the local tokens since the last time.
func (a *app) fillLocal(now time.Time) {
	executors := float64(a.executors)
	a.localTokens = min(
		a.localTokens+now.Sub(a.localTokensAt).Seconds()*a.settings.Rate/executors,
		max(1, float64(a.settings.Burst)/executors),
	)
	a.localTokensAt = now
}

// started counts a started call and takes its token.
func (a *app) started(now time.Time, unavailable bool) {
	if a.inUse == 0 {
		a.lastProgress = now
	}
	a.inUse++
	a.peak.add(now, a.inUse)
	a.used.count(now)
	if a.settings.Rate > 0 {
		a.fillLocal(now)
		a.localTokens = max(0, a.localTokens-1)
		switch {
		case unavailable:
		case len(a.order) > 0:
			a.order = a.order[1:]
		default:
			a.tokens--
		}
	}
}

// wantSlots returns how many slots are wanted: the running calls, the refused ones, and some to
// start without waiting.
func (a *app) wantSlots(now time.Time, share int) int {
	if a.settings.Concurrent == 0 {
		return 0
	}
	want := a.peak.most(now, a.inUse) + a.list.len()
	if want > 0 || a.used.rate(now) > 0 {
		want += 1 + want/4
	}
	if share > 0 {
		want = min(want, share)
	}
	return max(min(want, a.settings.Concurrent), a.inUse)
}
