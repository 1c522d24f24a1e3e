package limit

import (
	"math"
	"time"
)

// app is what the limiter knows of one app.
type app struct {
	settings Settings
	inUse    int

	tokens      int        // permits to start, for whoever comes
	order       []Priority // and those for what waits, whose turn each is
	tokensUntil time.Time
	slots       int // up to so many calls at once may be started
	slotsUntil  time.Time
	tokensShort bool // the ledger gave fewer permits to start than were wanted
	slotsShort  bool // and fewer slots
	nextToken   time.Time
	executors   int // that share the limits; at least 1

	syncing          bool      // an exchange is under way
	inUseAtSync      int       // calls that ran when it began
	lastSlotShortage time.Time // when there was a refusal for want of slots last

	// refusals for want of them since the last exchange, of those that do not wait here.
	missedTokens, missedSlots int
	peak                      int // most calls at once lately
	used                      meter
	ended                     meter
	lastProgress              time.Time // when a call ended last, or began while none ran
	lastSync                  time.Time // last time
	registered                bool      // the ledger knows us

	localTokens   float64 // permits of our own while the ledger is away
	localTokensAt time.Time

	list         waitList
	waitingSince time.Time // when the first of those that wait came
	// whose turn it is, where the ledger does not say: without a rate, or while it is away.
	picker Picker
}

func newApp(s Settings, now time.Time) *app {
	return &app{
		settings:      s,
		executors:     1,
		localTokensAt: now,
		used:          meter{from: now},
		ended:         meter{from: now},
	}
}

func (a *app) limited() bool { return a.settings != (Settings{}) }

// set gives new settings: permits of the old ones are void, and so are the retry-after times that
// were given by them.
func (a *app) set(s Settings, now time.Time) {
	a.settings = s
	a.tokens, a.order, a.slots, a.tokensShort, a.slotsShort = 0, nil, min(
		a.slots,
		s.Concurrent,
	), false, false
	a.localTokens, a.localTokensAt = 0, now
	a.list.deferred = [Priorities]deferred{}
	a.lastSync = time.Time{}
}

// refusal says why a call cannot start.
type refusal struct {
	label string
	fetch bool // the ledger shall be asked
	known bool // it was asked, and there is nothing at present
}

var (
	byShare        = &refusal{label: "share", known: true}
	byQueue        = &refusal{label: "queue", known: true}
	bySlots        = &refusal{label: "concurrent", known: true, fetch: true}
	byTokens       = &refusal{label: "rate", known: true, fetch: true}
	unknownYet     = &refusal{label: "fetch", fetch: true}
	syncInProgress = &refusal{label: "fetch"}
	byUnavailable  = &refusal{label: "away", known: true}
)

// refuse tells why a call cannot start now; nil: it can.
func (a *app) refuse(now time.Time, l *Limiter) *refusal {
	if a.inUse >= l.share() {
		return byShare
	}
	if !a.limited() {
		return nil
	}
	if l.unavailable {
		return a.refuseUnavailable(now)
	}
	if bySlot := a.refuseSlot(now); bySlot != nil {
		return bySlot
	}
	return a.refuseToken(now)
}

// share is how many calls any app may have here at present.
func (l *Limiter) share() int {
	most := math.MaxInt
	if l.opts.Share > 0 {
		most = l.opts.Share
	}
	if l.opts.Calls > 0 {
		most = min(most, max(1, l.opts.Calls-l.inUse))
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
		if a.syncing && a.inUse >= a.inUseAtSync {
			// the ledger may just be giving what is over to another: it leaves us no more than
			// those that ran when we asked.
			return syncInProgress
		}
		return nil
	case a.inUse >= most:
		return bySlots
	}
	a.lastSlotShortage = now
	if a.slotsShort {
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
	if a.tokensShort && now.Before(a.nextToken.Add(gatherDelay)) {
		return byTokens
	}
	return unknownYet
}

// missed notes what a fire wanted that does not wait here.
func (a *app) missed(now time.Time) {
	a.dropExpired(now)
	if a.settings.Rate > 0 && a.tokens == 0 && len(a.order) == 0 {
		a.missedTokens++
	}
	if a.settings.Concurrent > 0 && a.freeSlots(now) == 0 {
		a.missedSlots++
	}
}

// freeSlots returns how many more calls at once may be started by what the ledger gave.
func (a *app) freeSlots(now time.Time) int {
	if now.After(a.slotsUntil) {
		return 0
	}
	return max(min(a.slots, a.settings.Concurrent)-a.inUse, 0)
}

// dropExpired forgets permits that were not used in time.
func (a *app) dropExpired(now time.Time) {
	if now.After(a.tokensUntil) {
		a.tokens, a.order = 0, nil
	}
}

// refuseUnavailable decides by our own part of the limits.
func (a *app) refuseUnavailable(now time.Time) *refusal {
	if c := a.settings.Concurrent; c > 0 && a.inUse >= max(1, c/a.executors) {
		return byUnavailable
	}
	if r := a.settings.Rate; r > 0 {
		part := r / float64(a.executors)
		a.localTokens = min(
			a.localTokens+now.Sub(a.localTokensAt).Seconds()*part,
			max(1, float64(a.settings.Burst)/float64(a.executors)),
		)
		a.localTokensAt = now
		if a.localTokens < 1 {
			return byUnavailable
		}
	}
	return nil
}

// started counts a call in.
func (a *app) started(now time.Time, unavailable bool) {
	if a.inUse == 0 {
		a.lastProgress = now
	}
	a.inUse++
	a.peak = max(a.peak, a.inUse)
	a.used.count(now)
	if a.settings.Rate > 0 {
		switch {
		case unavailable:
			a.localTokens--
		case len(a.order) > 0:
			a.order = a.order[1:]
		default:
			a.tokens--
		}
	}
}

// wantSlots is how many calls at once are wanted: those that run, those that were refused, and some
// to start without waiting.
func (a *app) wantSlots(now time.Time, share int) int {
	if a.settings.Concurrent == 0 {
		return 0
	}
	want := max(a.inUse, a.peak) + a.missedSlots + a.waits()
	if want > 0 || a.used.rate(now) > 0 {
		want += 1 + want/4
	}
	if share > 0 {
		want = min(want, share)
	}
	return max(min(want, a.settings.Concurrent), a.inUse)
}

// waits returns how many wait here.
func (a *app) waits() (n int) {
	for p := range Priorities {
		n += a.list.len(p)
	}
	return n
}
