package limit

import (
	"math"
	"time"
)

// app is what the limiter knows of one app.
type app struct {
	settings Settings
	inUse    int

	tokens     int // permits to start
	tokensTill time.Time
	slots      int // up to so many calls at once may be started
	slotsTill  time.Time
	short      bool // the ledger gave fewer tokens than were wanted
	slotsShort bool // and fewer slots
	nextToken  time.Time
	executors  int // that share the limits; at least 1

	asking  bool      // an exchange is under way
	asked   int       // calls that ran when it began
	missing time.Time // when there was a refusal for want of slots last

	missedTokens, missedSlots int // refusals for want of them since the last exchange
	peak                      int // most calls at once lately
	used                      meter
	ended                     meter
	progress                  time.Time // when a call ended last, or began while none ran
	exchanged                 time.Time // last time
	entered                   bool      // the ledger knows us

	local     float64 // permits of our own while the ledger is away
	localFrom time.Time

	promised time.Time // the last permit that one who came back waits for: see nextToken
	lines    [priorities]line
	turns    *Picker   // whose turn it is, while more than one priority waits
	turn     Priority  // its fire is the next to start,
	till     time.Time // if it comes until then
}

// line is where the fires of a priority wait.
type line struct {
	tail     time.Time // the last instant that was given to a new fire
	backTail time.Time // the last that was given to one that came back
	near     time.Time // the last that was given to one that missed its turn by little
	sentBack time.Time // when one that came back was refused last
	short    time.Time // when one was refused last for want of something, and not for others that go first
}

// waits tells whether instants were given that are still to come.
func (l *line) waits(now time.Time) bool {
	return l.tail.After(now) || l.backTail.After(now) || l.near.After(now)
}

func newApp(s Settings, now time.Time) *app {
	return &app{settings: s, executors: 1, localFrom: now, turns: NewPicker(DefaultWeights()), used: meter{from: now}, ended: meter{from: now}}
}

func (a *app) limited() bool { return a.settings != (Settings{}) }

// set gives new settings: permits of the old ones are void, and the queue of instants begins anew.
func (a *app) set(s Settings, now time.Time) {
	a.settings = s
	a.tokens, a.slots, a.short, a.slotsShort = 0, min(a.slots, s.Concurrent), false, false
	a.local, a.localFrom = 0, now
	a.promised, a.lines, a.till = time.Time{}, [priorities]line{}, time.Time{}
}

// behindFor is how long a refusal of one that came back keeps new fires behind.
const behindFor = time.Second

// refusal says why a call cannot start.
type refusal struct {
	label string
	fetch bool // the ledger shall be asked
	known bool // it was asked, and there is nothing at present
}

var (
	byShare     = &refusal{label: "share", known: true}
	byQueue     = &refusal{label: "queue", known: true}
	bySlots     = &refusal{label: "concurrent", known: true, fetch: true}
	byTokens    = &refusal{label: "rate", known: true, fetch: true}
	unknownYet  = &refusal{label: "fetch", fetch: true}
	askingNow   = &refusal{label: "fetch"}
	awayRefusal = &refusal{label: "away", known: true}
)

// refuse tells why a call cannot start now; nil: it can.
func (a *app) refuse(ask *Ask, now time.Time, l *Limiter) *refusal {
	if a.inUse >= l.share() {
		return byShare
	}
	if !ask.Returned && a.behind(ask.Priority, now) || !a.itsTurn(ask.Priority, now) {
		return byQueue // those who came back first, and who goes first
	}
	if !a.limited() {
		return nil
	}
	if l.away {
		return a.refuseAway(now)
	}
	// Both are looked at, so that what is missed of both is wanted in one exchange.
	bySlot, byToken := a.refuseSlot(now), a.refuseToken(now)
	if bySlot != nil {
		return bySlot
	}
	return byToken
}

// behind tells whether new fires stand behind those who came back. They do only while some of those are really refused: their instants were
// estimated in trouble, and once it is over they may lie minutes ahead of calls that are free. Whoever still waits for his finds it free as well.
func (a *app) behind(p Priority, now time.Time) bool {
	for i := range a.lines[:p+1] {
		l := &a.lines[i]
		if !l.backTail.After(now) {
			continue
		}
		if now.Sub(l.sentBack) < behindFor {
			return true
		}
		l.tail, l.backTail = now, now
	}
	return false
}

// itsTurn tells whether a fire of a priority may start before those of others that wait: by weight, in turn. A turn that nobody takes passes. Others wait only while
// they are really refused: see behind.
func (a *app) itsTurn(p Priority, now time.Time) bool {
	var waiting [priorities]bool
	others := false
	for i := range a.lines {
		l := &a.lines[i]
		waiting[i] = Priority(i) == p || l.waits(now) && (now.Sub(l.short) < behindFor || now.Sub(l.short) < 2*a.step(now, byTokens))
		others = others || waiting[i] && Priority(i) != p
	}
	if !others {
		a.till = time.Time{}
		return true
	}
	if !waiting[a.turn] || !now.Before(a.till) {
		a.turn, _ = a.turns.Next(waiting)
		a.till = now.Add(max(nearBy, 2*a.step(now, byTokens)))
	}
	return a.turn == p
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
			return askingNow // the ledger may just be giving what is over to another: it leaves us no more than those that ran when we asked
		}
		return nil
	case a.inUse >= most:
		return bySlots
	}
	a.missedSlots++
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
	if now.After(a.tokensTill) {
		a.tokens = 0
	}
	if a.tokens > 0 {
		return nil
	}
	a.missedTokens++
	if a.short && now.Before(a.nextToken.Add(askAgain)) {
		return byTokens
	}
	return unknownYet
}

// refuseAway decides by our own part of the limits.
func (a *app) refuseAway(now time.Time) *refusal {
	if c := a.settings.Concurrent; c > 0 && a.inUse >= max(1, c/a.executors) {
		return awayRefusal
	}
	if r := a.settings.Rate; r > 0 {
		part := r / float64(a.executors)
		a.local = min(a.local+now.Sub(a.localFrom).Seconds()*part, max(1, float64(a.settings.Burst)/float64(a.executors)))
		a.localFrom = now
		if a.local < 1 {
			return awayRefusal
		}
	}
	return nil
}

// started counts a call in.
func (a *app) started(now time.Time, away bool) {
	a.till = time.Time{} // the next turn
	if a.inUse == 0 {
		a.progress = now
	}
	a.inUse++
	a.peak = max(a.peak, a.inUse)
	a.used.count(now)
	if a.settings.Rate > 0 {
		if away {
			a.local--
		} else {
			a.tokens--
		}
	}
}

// wantSlots is how many calls at once are wanted: those that run, those that were refused, and some to start without waiting.
func (a *app) wantSlots(now time.Time, share int) int {
	if a.settings.Concurrent == 0 {
		return 0
	}
	want := max(a.inUse, a.peak) + a.missedSlots
	if want > 0 || a.used.rate(now) > 0 {
		want += 1 + want/4
	}
	if share > 0 {
		want = min(want, share)
	}
	return max(min(want, a.settings.Concurrent), a.inUse)
}
