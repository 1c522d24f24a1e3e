package limit

import (
	"math"
	"time"
)

// app is what the limiter knows of one app.
type app struct {
	settings Settings
	inUse    int

	tokens     int        // permits to start, for whoever comes
	turns      []Priority // and those for what waits, whose turn each is
	tokensTill time.Time
	slots      int // up to so many calls at once may be started
	slotsTill  time.Time
	short      bool // the ledger gave fewer permits to start than were wanted
	slotsShort bool // and fewer slots
	nextToken  time.Time
	executors  int // that share the limits; at least 1

	asking  bool      // an exchange is under way
	asked   int       // calls that ran when it began
	missing time.Time // when there was a refusal for want of slots last

	// refusals for want of them since the last exchange, of those that do not wait here.
	missedTokens, missedSlots int
	peak                      int // most calls at once lately
	used                      meter
	ended                     meter
	progress                  time.Time // when a call ended last, or began while none ran
	exchanged                 time.Time // last time
	entered                   bool      // the ledger knows us

	local     float64 // permits of our own while the ledger is away
	localFrom time.Time

	list  waitList
	since time.Time // when the first of those that wait came
	// whose turn it is, where the ledger does not say: without a rate, or while it is away.
	picker Picker
}

func newApp(s Settings, now time.Time) *app {
	return &app{
		settings:  s,
		executors: 1,
		localFrom: now,
		used:      meter{from: now},
		ended:     meter{from: now},
	}
}

func (a *app) limited() bool { return a.settings != (Settings{}) }

// set gives new settings: permits of the old ones are void, and so are the retry-after times that
// were given by them.
func (a *app) set(s Settings, now time.Time) {
	a.settings = s
	a.tokens, a.turns, a.slots, a.short, a.slotsShort = 0, nil, min(
		a.slots,
		s.Concurrent,
	), false, false
	a.local, a.localFrom = 0, now
	a.list.deferred = [Priorities]deferred{}
	a.exchanged = time.Time{}
}

// refusal says why a call cannot start.
type refusal struct {
	label string
	fetch bool // the ledger shall be asked
	known bool // it was asked, and there is nothing at present
}

var (
	byShare     = &refusal{label: "share", known: true}
	byOrder     = &refusal{label: "queue", known: true}
	bySlots     = &refusal{label: "concurrent", known: true, fetch: true}
	byTokens    = &refusal{label: "rate", known: true, fetch: true}
	unknownYet  = &refusal{label: "fetch", fetch: true}
	askingNow   = &refusal{label: "fetch"}
	awayRefusal = &refusal{label: "away", known: true}
)

// refuse tells why a call cannot start now; nil: it can.
func (a *app) refuse(now time.Time, l *Limiter) *refusal {
	if a.inUse >= l.share() {
		return byShare
	}
	if !a.limited() {
		return nil
	}
	if l.away {
		return a.refuseAway(now)
	}
	if bySlot := a.refuseSlot(now); bySlot != nil {
		return bySlot
	}
	return a.refuseToken(now)
}

// share is how many calls any app may have here at present.
func (l *Limiter) share() int {
	most := math.MaxInt
	if l.o.Share > 0 {
		most = l.o.Share
	}
	if l.o.Calls > 0 {
		most = min(most, max(1, l.o.Calls-l.inUse))
	}
	return most
}

func (a *app) refuseSlot(now time.Time) *refusal {
	most := a.settings.Concurrent
	if most == 0 {
		return nil
	}
	have := a.slots
	if now.After(a.slotsTill) {
		have = 0
	}
	switch {
	case a.inUse < min(have, most):
		if a.asking && a.inUse >= a.asked {
			// the ledger may just be giving what is over to another: it leaves us no more than
			// those that ran when we asked.
			return askingNow
		}
		return nil
	case a.inUse >= most:
		return bySlots
	}
	a.missing = now
	if a.slotsShort {
		return bySlots
	}
	return unknownYet
}

func (a *app) refuseToken(now time.Time) *refusal {
	if a.settings.Rate == 0 {
		return nil
	}
	a.lapse(now)
	if a.tokens > 0 || len(a.turns) > 0 {
		return nil
	}
	if a.short && now.Before(a.nextToken.Add(askAgain)) {
		return byTokens
	}
	return unknownYet
}

// missed notes what a fire wanted that does not wait here.
func (a *app) missed(now time.Time) {
	a.lapse(now)
	if a.settings.Rate > 0 && a.tokens == 0 && len(a.turns) == 0 {
		a.missedTokens++
	}
	if a.settings.Concurrent > 0 && a.freeSlots(now) == 0 {
		a.missedSlots++
	}
}

// freeSlots returns how many more calls at once may be started by what the ledger gave.
func (a *app) freeSlots(now time.Time) int {
	if now.After(a.slotsTill) {
		return 0
	}
	return max(min(a.slots, a.settings.Concurrent)-a.inUse, 0)
}

// lapse forgets permits that were not used in time.
func (a *app) lapse(now time.Time) {
	if now.After(a.tokensTill) {
		a.tokens, a.turns = 0, nil
	}
}

// refuseAway decides by our own part of the limits.
func (a *app) refuseAway(now time.Time) *refusal {
	if c := a.settings.Concurrent; c > 0 && a.inUse >= max(1, c/a.executors) {
		return awayRefusal
	}
	if r := a.settings.Rate; r > 0 {
		part := r / float64(a.executors)
		a.local = min(
			a.local+now.Sub(a.localFrom).Seconds()*part,
			max(1, float64(a.settings.Burst)/float64(a.executors)),
		)
		a.localFrom = now
		if a.local < 1 {
			return awayRefusal
		}
	}
	return nil
}

// started counts a call in.
func (a *app) started(now time.Time, away bool) {
	if a.inUse == 0 {
		a.progress = now
	}
	a.inUse++
	a.peak = max(a.peak, a.inUse)
	a.used.count(now)
	if a.settings.Rate > 0 {
		switch {
		case away:
			a.local--
		case len(a.turns) > 0:
			a.turns = a.turns[1:]
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
