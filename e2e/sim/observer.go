package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/session"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// observer records what takes effect in the store, at that instant: the exact history of each
// timer's status, and the renewals of each session. Answers to clients may differ, because they get
// lost.
type observer struct {
	env           *Environment
	effectMu      sync.Mutex // held from before a change of timers until the change is recorded
	mu            sync.Mutex
	timers        map[string]*history // by name
	byID          map[timer.ID]*history
	sessions      map[timer.ID]*sessionState
	interruptions []interruption
}

// history is what happened to one timer.
type history struct {
	id      timer.ID
	app     string
	changes []change // in order
	edits   []edited // in order
}

// edited is a new version: its step, and the instant after which it holds.
type edited struct {
	at   int64 // unix ms
	step time.Duration
}

type change struct {
	at     int64 // unix ms
	status timer.Status
	// Unix ms, of a pause: when the timer becomes active again, even if no process notices; 0: no
	// end.
	until int64
}

// endPause adds the end of a pause if it has passed.
func (h *history) endPause(nowMS int64) {
	if n := len(h.changes); n > 0 && h.changes[n-1].until > 0 && h.changes[n-1].until <= nowMS {
		h.changes = append(h.changes, change{at: h.changes[n-1].until, status: timer.StatusActive})
	}
}

// at returns the index of the change that was in force at an instant, or -1.
func (h *history) at(ms int64) int {
	n := -1
	for i, c := range h.changes {
		if c.at <= ms {
			n = i
		}
	}
	return n
}

// pauseEnded reports whether a pause ended by itself just before an instant.
func (h *history) pauseEnded(ms int64) bool {
	i := h.at(ms)
	return i > 0 && h.changes[i-1].until == h.changes[i].at &&
		ms-h.changes[i].at < pauseEndDelay.Milliseconds()
}

// activeThroughout reports whether the timer was active all the time between two instants.
func (h *history) activeThroughout(fromMS, toMS int64) bool {
	for i := max(0, h.at(fromMS)); i < len(h.changes) && h.changes[i].at <= toMS; i++ {
		if h.changes[i].status != timer.StatusActive {
			return false
		}
	}
	return true
}

// sessionState is what is known of one session.
type sessionState struct {
	p       *process
	renewed time.Time
	over    bool
}

// interruption is an executor's loss of its session. Its calls in flight may be repeated.
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

// lockEffects makes a change and its recording atomic, until the returned function is called.
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

// historyOf returns a copy of a timer's history, by name.
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

// status returns a timer's latest status.
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

// ended checks that an expired session was not renewed for the session timeout, and that a fault
// explains that.
func (o *observer) ended(by *process, id timer.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.sessions[id]
	l.over = true
	now := time.Now()
	sinceRenewal := now.Sub(l.renewed)
	o.env.log.printf("%s expires session %d of %s, renewed %s ago", by, id, l.p, sinceRenewal)
	if sinceRenewal < session.Timeout {
		o.env.failf("session %d of %s is expired %s after its renewal", id, l.p, sinceRenewal)
	}
	if !l.p.disturbedSince(l.renewed) {
		o.env.failf(
			"%s did not renew its session for %s, and no fault explains it",
			l.p,
			sinceRenewal,
		)
	}
	if l.p.role == executorRole {
		o.interruptions = append(o.interruptions, interruption{at: now, n: l.p.number})
	}
}

// disturbedSince reports whether a fault has affected the process at that time or since.
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
	// A stop that times out leaves calls without a record, as a crash does: their records did not
	// arrive in time.
	if l.p.role == executorRole && l.p.stoppedFor() >= drainTimeout {
		o.env.log.printf("%s did not stop in time", l.p)
		o.interruptions = append(o.interruptions, interruption{at: time.Now(), n: l.p.number})
	}
}

// renewedSince reports whether a live session of the process was renewed after an instant.
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
