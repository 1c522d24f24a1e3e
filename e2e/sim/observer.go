package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// observer sees what takes effect in the store, at the instant at which it does: the exact history
// of each timer's status, and the life of each session. What clients were told is another matter,
// since answers get lost.
type observer struct {
	env           *Environment
	effectMu      sync.Mutex // held from before an effect on timers until it is noted
	mu            sync.Mutex
	timers        map[string]*history // by name
	byID          map[timer.ID]*history
	sessions      map[timer.ID]*sessionState
	interruptions []interruption
}

// history is a timer's.
type history struct {
	id      timer.ID
	app     string
	changes []change // in order
	edits   []edited // in order
}

// edited is a new version: which step it has, and the instant from behind which it holds.
type edited struct {
	at   int64 // unix ms
	step time.Duration
}

type change struct {
	at     int64 // unix ms
	status timer.Status
	// unix ms, of a pause: when the timer is active again, whoever notices; 0: it has no end.
	until int64
}

// endPause enters the end of a pause that has come.
func (h *history) endPause(nowMS int64) {
	if n := len(h.changes); n > 0 && h.changes[n-1].until > 0 && h.changes[n-1].until <= nowMS {
		h.changes = append(h.changes, change{at: h.changes[n-1].until, status: timer.StatusActive})
	}
}

// at returns which change was in force at an instant; -1: none.
func (h *history) at(ms int64) int {
	n := -1
	for i, c := range h.changes {
		if c.at <= ms {
			n = i
		}
	}
	return n
}

// pauseEnded tells whether a pause has ended just before an instant, by itself.
func (h *history) pauseEnded(ms int64) bool {
	i := h.at(ms)
	return i > 0 && h.changes[i-1].until == h.changes[i].at &&
		ms-h.changes[i].at < pauseEndDelay.Milliseconds()
}

// activeThroughout tells whether the timer was active all the time from one instant to another.
func (h *history) activeThroughout(fromMS, toMS int64) bool {
	for i := max(0, h.at(fromMS)); i < len(h.changes) && h.changes[i].at <= toMS; i++ {
		if h.changes[i].status != timer.StatusActive {
			return false
		}
	}
	return true
}

// sessionState is a session's.
type sessionState struct {
	p       *process
	renewed time.Time
	over    bool
}

// interruption is the end of an executor's session by others: what was in flight there is called again.
type interruption struct {
	at time.Time
	n  uint16
}

func newObserver(env *Environment) *observer {
	return &observer{
		env:      env,
		timers:   make(map[string]*history),
		byID:     make(map[timer.ID]*history),
		sessions: make(map[timer.ID]*sessionState),
	}
}

// lockEffects makes an effect and its being noted one, until the returned function is called.
func (o *observer) lockEffects() (done func()) {
	o.effectMu.Lock()
	return o.effectMu.Unlock
}

func (o *observer) created(items []store.NewTimer, out []store.CreateResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range out {
		if c.Err != nil || c.Existing {
			continue
		}
		if o.timers[items[i].Name] != nil {
			o.env.failf("timer %s is created twice", items[i].Name)
		}
		h := &history{id: c.Timer.ID, app: items[i].App}
		if items[i].Activate {
			h.changes = append(
				h.changes,
				change{at: time.Now().UnixMilli(), status: timer.StatusActive},
			)
		}
		o.timers[items[i].Name], o.byID[h.id] = h, h
		o.env.log.printf("timer %s is created as %s: %s", items[i].Name, h.id, c.Timer.Status)
	}
}

func (o *observer) changed(out []store.StatusResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range out {
		if c.Err != nil || c.Seq == 0 {
			continue
		}
		h, nowMS := o.byID[c.Timer.ID], time.Now().UnixMilli()
		h.endPause(nowMS)
		h.changes = append(h.changes, change{nowMS, c.Timer.Status, c.Timer.PausedUntilMS})
		o.env.log.printf("timer %s (%s) is %s", c.Timer.Name, c.Timer.ID, c.Timer.Status)
	}
}

func (o *observer) edited(out []store.EditResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range out {
		if c.Err != nil || c.Seq == 0 {
			continue
		}
		h := o.byID[c.Timer.ID]
		n := slices.IndexFunc(
			editSteps,
			func(d time.Duration) bool { return cronOf(d) == c.Timer.Definition.Schedule.Specs[0] },
		)
		h.edits = append(h.edits, edited{c.Timer.VersionMS, editSteps[n]})
		o.env.log.printf(
			"timer %s (%s) has version %d from %s on",
			c.Timer.Name,
			c.Timer.ID,
			c.Timer.Version,
			stamp(c.Timer.VersionMS),
		)
	}
}

// historyOf returns what is known of a timer, by name.
func (o *observer) historyOf(name string) (history, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.timers[name]
	if h == nil {
		return history{}, false
	}
	h.endPause(time.Now().UnixMilli())
	return *h, true
}

// status returns what a timer's status was last set to.
func (h *history) status() timer.Status {
	if len(h.changes) == 0 {
		return timer.StatusInactive
	}
	return h.changes[len(h.changes)-1].status
}

func (o *observer) opened(p *process, id timer.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions[id] = &sessionState{p: p, renewed: time.Now()}
	o.env.log.printf("%s opens session %d", p, id)
}

func (o *observer) renewed(id timer.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions[id].renewed = time.Now()
}

// ended judges the end of a session: it must have been silent, and something must have silenced it.
func (o *observer) ended(by *process, id timer.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.sessions[id]
	l.over = true
	now := time.Now()
	sinceRenewal := now.Sub(l.renewed)
	o.env.log.printf("%s ends session %d of %s, silent for %s", by, id, l.p, sinceRenewal)
	if sinceRenewal < session.Timeout {
		o.env.failf("session %d of %s is ended after %s of silence", id, l.p, sinceRenewal)
	}
	if !l.p.disturbedSince(l.renewed) {
		o.env.failf("%s was silent for %s, and nothing had befallen it", l.p, sinceRenewal)
	}
	if l.p.role == executorRole {
		o.interruptions = append(o.interruptions, interruption{at: now, n: l.p.number})
	}
}

// disturbedSince tells whether something befell the process at that time or since.
func (p *process) disturbedSince(at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw != nil || p.dead || p.ended || p.cutOff || !p.disturbedAt.Before(at)
}

func (o *observer) closed(id timer.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.sessions[id]
	if l == nil || l.over {
		return
	}
	l.over = true
	// A stop that is cut short leaves calls without a record, as a death does: their dead letters
	// or records went nowhere for so long.
	if l.p.role == executorRole && l.p.stoppedFor() >= drainTimeout {
		o.env.log.printf("%s has not come to its end in time", l.p)
		o.interruptions = append(o.interruptions, interruption{at: time.Now(), n: l.p.number})
	}
}

// renewedSince tells whether a session of the process is alive and was renewed since then.
func (o *observer) renewedSince(p *process, at time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.sessions {
		if l.p == p && !l.over && l.renewed.After(at) {
			return true
		}
	}
	return false
}
