package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
)

// Plan is everything that a seed decides: the load, the faults, and their times.
type Plan struct {
	Seed   uint64
	Length time.Duration // of load and faults
	Timers []timerPlan
	Faults []fault
	Skews  map[role][replicas]time.Duration // of the hosts' clocks at the start
	Late   time.Duration                    // how late a first call may be; 0: no limit
	// If there are any, a call may be late only within these.
	Zones  []zone
	Tune   Tuning
	Limits []limited
}

// limited is a time range in which the app has limits.
type limited struct {
	zone

	settings client.Settings
}

// draftLimits draws limits that the load sometimes exceeds, in one plan of three. They are short,
// because executors with waiting calls ask for permits a hundred times a second.
func draftLimits(r *rand.Rand, length time.Duration) (all []limited) {
	if r.IntN(3) > 0 {
		return nil
	}
	from := between(r, 0, length/2)
	l := limited{
		zone{from, from + between(r, time.Minute, min(length/4, 6*time.Minute))},
		client.Settings{Rate: float64(2 + r.IntN(8))},
	}
	if r.IntN(2) == 0 {
		l.settings.Concurrent = 1 + r.IntN(4)
	}
	return []limited{l}
}

// zone is a time range since the start.
type zone struct{ from, to time.Duration }

// Tuning is a seed's changes to the settings; a zero changes nothing.
type Tuning struct {
	ExpandAhead                      time.Duration
	PerBucket, MaxInflight, MaxCalls int
	MaxEntries, MaxMessages          int // capacity of the window, and of each topic
	PollAhead                        time.Duration
}

func draftTuning(r *rand.Rand) Tuning {
	one := func(of ...int) int { return of[r.IntN(len(of))] }
	return Tuning{
		ExpandAhead: time.Duration(
			one(0, 0, 3, 7),
		) * time.Minute,
		PerBucket:   one(0, 0, 3, 1000),
		MaxInflight: one(0, 0, 0, 20),
		MaxCalls:    one(0, 0, 0, 4),
		MaxEntries:  one(0, 0, 0, 40),
		MaxMessages: one(0, 0, 0, 15),
		// 0 switches off the store poll, which would hide bugs of the pipeline.
		PollAhead: time.Duration(one(0, 1)) * time.Second,
	}
}

// faultKind is the kind of an injected fault.
type faultKind string

const (
	crash             faultKind = "crash"          // a process dies, and another replaces it later
	crashAll          faultKind = "crash-all"      // all of a role
	power             faultKind = "power"          // all processes die
	suspend           faultKind = "suspend"        // all processes freeze
	restart           faultKind = "restart"        // a process is stopped in order, and replaced at once
	freeze            faultKind = "freeze"         // a process freezes
	freezeAll         faultKind = "freeze-all"     //
	cutOff            faultKind = "cut-off"        // a process cannot reach the store
	skewClock         faultKind = "skew"           // a host's clock jumps
	windowUnavailable faultKind = "window-away"    //
	windowFails       faultKind = "window-fails"   // calls fail, with and without effect
	windowFlushed     faultKind = "window-flushed" //
	entriesLost       faultKind = "entries-lost"   // the window loses entries silently
	busBad            faultKind = "bus-bad"        // the bus repeats, reorders, delays and drops messages
	busFails          faultKind = "bus-fails"      // publishing fails, with and without effect
	busUnavailable    faultKind = "bus-away"       //
	busLost           faultKind = "bus-lost"       // the bus confirms messages and loses them
	// A topic is deleted with its messages, and created again.
	topicLost faultKind = "topic-lost"
	// reads fail; commits fail before and after they applied.
	storeFails       faultKind = "store-fails"
	storeSlow        faultKind = "store-slow"  //
	storeUnavailable faultKind = "store-away"  // the store refuses calls
	storeHangs       faultKind = "store-hangs" // the store does not answer
)

// fault is a fault that is injected at a time, for a duration.
type fault struct {
	kind         faultKind
	at, duration time.Duration
	role         role
	replica      int
	triggerPoint *triggerPoint // of a crash or freeze: it happens when the process makes this call
	severity     float64       // from 0 to 1
}

// triggerPoint is the call at which a fault happens.
type triggerPoint struct {
	call string
	when phase
	skip int
}

func (f *fault) String() string {
	s := string(f.kind)
	switch f.kind { //nolint:exhaustive // the others have no target to name
	case crash, restart, freeze, cutOff, skewClock:
		s += fmt.Sprintf(" of %s/%d", f.role, f.replica)
	case crashAll, freezeAll:
		s += " of " + string(f.role)
	}
	if f.triggerPoint != nil {
		s += fmt.Sprintf(
			" %s %s (%d)",
			f.triggerPoint.when,
			f.triggerPoint.call,
			f.triggerPoint.skip,
		)
	}
	return fmt.Sprintf("%s at %s for %s (%.2f)", s, f.at, f.duration, f.severity)
}

// One seed of calmSeeds has no fault. One of mildSeeds has only faults of single processes, one at
// a time: then fires are late by no more than the recovery targets.
const (
	calmSeeds = 50
	mildSeeds = 5

	lateCalm   = 500 * time.Millisecond // a slow answer of the store
	lateKilled = 3*time.Second + lateCalm
	// Without store polls, fires wait until they are overdue if their task went to a frozen process,
	// or their window entry was lost with the process that committed them.
	lateNoPolls = 11*time.Second + lateCalm
	apart       = 15 * time.Second // from the end of one mild fault to the next
	mildAtMost  = 20 * time.Second
	kindsAtMost = 8
)

// Draft draws a plan. Each seed has only some kinds of faults, because a mixture of all would hide
// combinations.
func Draft(seed uint64, length time.Duration) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{
		Seed:   seed,
		Length: length,
		Timers: draftLoad(r, length),
		Skews:  make(map[role][replicas]time.Duration),
	}
	draftPauses(rand.New(rand.NewPCG(seed, 1)), p.Timers)
	switch {
	case seed%calmSeeds == 0:
		p.Late = lateCalm
	case seed%mildSeeds == 0:
		p.draftMild(r)
	case seed%mildSeeds == 1:
		p.draftSingle(r)
	default:
		p.draftFaults(r)
		p.Tune = draftTuning(r)
		p.Limits = draftLimits(r, length)
	}
	return p
}

func (p *Plan) draftMild(r *rand.Rand) {
	kinds := []faultKind{crash, restart, freeze}
	kinds = kinds[:1+r.IntN(len(kinds))]
	if p.Late = lateNoPolls; p.Seed%2 == 0 {
		p.Tune.PollAhead, p.Late = time.Second, lateKilled
	}
	for at := apart; ; {
		f := draftFault(r, kinds[r.IntN(len(kinds))])
		if f.kind != restart {
			//nolint:mnd // one of them
			f.role = []role{schedulerRole, triggerRole, executorRole, executorRole}[r.IntN(4)]
		}
		if f.triggerPoint != nil {
			f.triggerPoint = draftTriggerPoint(r, f.role, f.kind)
		}
		f.at, f.duration = at, min(f.duration, mildAtMost)
		at += triggerWait + f.duration + apart
		if f.at+triggerWait+f.duration > p.Length {
			return
		}
		p.Faults = append(p.Faults, f)
	}
}

// recovery is how long after the end of a fault fires may be late. Lost fires are found by then.
var recovery = map[faultKind]time.Duration{
	restart:           0,
	cutOff:            6 * time.Second,
	windowUnavailable: 5 * time.Second,
	windowFails:       marked,
	windowFlushed:     foundOverdue,
	entriesLost:       marked,
	busFails:          foundOverdue,
	topicLost:         foundOverdue,
	busUnavailable:    5 * time.Second,
	storeUnavailable:  5 * time.Second,
	storeHangs:        5 * time.Second,
}

const (
	foundOverdue = 12 * time.Second // executors have found what was lost
	// Entries lost from a loaded slice are found after the slice: a minute, and its head start.
	marked = foundOverdue + 75*time.Second
)

// draftSingle draws faults of one kind. Each is over before the next, and in between all fires are
// on time.
func (p *Plan) draftSingle(r *rand.Rand) {
	kinds := slices.Sorted(maps.Keys(recovery))
	kind := kinds[r.IntN(len(kinds))]
	for at := apart; ; {
		f := draftFault(r, kind)
		//nolint:mnd // an outage is made up for in a fifth of its time
		over := max(recovery[kind], f.duration/5)
		if kind == restart {
			over = 0
		}
		f.at = at
		at += f.duration + over + apart
		if at > p.Length {
			return
		}
		p.Faults = append(p.Faults, f)
		p.Zones = append(p.Zones, zone{f.at, f.at + f.duration + over})
	}
}

func (p *Plan) draftFaults(r *rand.Rand) {
	kinds := []faultKind{
		crash,
		crash,
		freeze,
		freeze,
		restart,
		cutOff,
		crashAll,
		freezeAll,
		power,
		suspend,
		skewClock,
		windowUnavailable,
		windowFails,
		windowFlushed,
		entriesLost,
		busBad,
		busBad,
		busFails,
		busUnavailable,
		busLost,
		topicLost,
		storeFails,
		storeFails,
		storeSlow,
		storeUnavailable,
		storeHangs,
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:1+r.IntN(kindsAtMost)]
	if slices.Contains(kinds, skewClock) {
		for _, role := range roles {
			p.Skews[role] = [replicas]time.Duration{drawSkew(r), drawSkew(r)}
		}
	}
	every := time.Duration(10+r.IntN(110)) * time.Second //nolint:mnd // from hectic to quiet
	for at := every / 2; ; {                             //nolint:mnd // the first is not late
		at += time.Duration(r.ExpFloat64() * float64(every))
		f := draftFault(r, kinds[r.IntN(len(kinds))])
		f.at = at
		if f.at+f.duration > p.Length {
			return
		}
		p.Faults = append(p.Faults, f)
		if r.IntN(companyOf) == 0 || f.kind == windowFlushed && r.IntN(2) == 0 {
			p.Faults = append(p.Faults, draftCompany(r, &f, kinds))
		}
	}
}

// companyOf is such that one of so many faults comes with another.
const companyOf = 6

// draftCompany draws a fault at the same instant as another. If the other one loses data, it is
// often a crash of a process that has the same data.
func draftCompany(r *rand.Rand, f *fault, kinds []faultKind) fault {
	kind := kinds[r.IntN(len(kinds))]
	if f.kind == windowFlushed || f.kind == topicLost {
		kind = crash
	}
	c := draftFault(r, kind)
	c.at, c.duration, c.triggerPoint = f.at, min(c.duration, f.duration), nil
	if f.kind == windowFlushed && r.IntN(2) == 0 {
		c.role = executorRole
	}
	return c
}

// drawSkew draws a host's clock error, mostly as small as with NTP.
func drawSkew(r *rand.Rand) time.Duration {
	most := 50 * time.Millisecond
	if r.IntN(3) == 0 {
		most = 5 * time.Second
	}
	return time.Duration((2*r.Float64() - 1) * float64(most))
}

func draftFault(r *rand.Rand, k faultKind) fault {
	f := fault{
		kind:     k,
		role:     roles[r.IntN(len(roles))],
		replica:  r.IntN(replicas),
		severity: r.Float64(),
	}
	if r.IntN(3) == 0 {
		f.role = executorRole // executors have the most state to lose
	}
	draw := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	switch r.IntN(3) {
	case 0:
		f.duration = draw(50*time.Millisecond, 3*time.Second)
	case 1:
		f.duration = draw(2*time.Second, 12*time.Second)
	default:
		f.duration = draw(10*time.Second, 90*time.Second)
	}
	switch k { //nolint:exhaustive // the others have no chance to draw
	case busBad, busFails, windowFails, storeFails, storeSlow, entriesLost:
		f.duration = draw(10*time.Second, 4*time.Minute)
	case crash, freeze:
		if r.IntN(4) > 0 {
			f.triggerPoint = draftTriggerPoint(r, f.role, k)
		}
	case crashAll,
		freezeAll,
		power,
		suspend: // sometimes past the end of a minute, and past the expanded time
		if r.IntN(4) == 0 {
			f.duration = draw(time.Minute, 5*time.Minute)
		}
	}
	return f
}

// triggerPoints are the calls of each role that leave something half done.
var triggerPoints = map[role]string{
	apiRole:       "HTTP,Create,SetStatus,Put,Publish tasks-normal,Publish timers-changed",
	migratorRole:  "Expand,ContinueReplans,Put,Publish tasks-normal,GrowMinutes,PurgeExpired",
	schedulerRole: "FreezeMinute,ClaimSlices,Publish slices,Cursor,AdvanceCursor,LiveSessions,ExpireSession,RenewSession",
	triggerRole:   "Handle slices,HoldSlice,Open,LoadSlice,Range,Publish tasks-normal,RenewSlices,FinishSlice",
	executorRole: "Handle tasks-normal,Claim,Claim,Definitions,States,Changes,Call,Answer,Call,Answer,Record,Record,RecordAttempts,Release,Put," +
		"Publish outcomes,Publish tasks-normal,Publish tasks-dead,RenewSession,LiveSessions,ExpireSession,Owned,Overdue,ExpiredSessions,MinuteCounts",
}

func draftTriggerPoint(r *rand.Rand, of role, k faultKind) *triggerPoint {
	calls := strings.Split(triggerPoints[of], ",")
	//nolint:gosec // 0 or 1
	s := &triggerPoint{call: calls[r.IntN(len(calls))], when: phase(r.IntN(2)), skip: r.IntN(3)}
	switch {
	case s.call == "Call" && k == freeze:
		// If a process froze between its session check and its request, it would call twice, as in
		// reality. That instant is too short to happen in reality, so no trigger point is there.
		s.when = after
	case s.call == "Answer":
		s.when = after
	}
	return s
}
