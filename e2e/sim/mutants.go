package sim

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
)

// Mutant is a deliberate bug, made by wrapping a deployment's parts.
type Mutant struct {
	Name    string
	Obvious bool // one of the first seeds catches it
	Mutate  func(*components)
}

// MutantLostInstants makes fires that nobody but a comparison with the schedule can miss.
const MutantLostInstants = "expansions lose instants"

// Mutants are bugs that the simulation must find. If it found none of them, its success would prove
// nothing.
var Mutants = []Mutant{
	{"overdue fires are not found", true, func(k *components) { k.store = noneOverdue{k.store} }},
	{"orphans are not found", false, func(k *components) { k.store = noOrphans{k.store} }},
	{
		"acknowledgement before the claim",
		true,
		func(k *components) { k.bus = &ackBeforeClaim{Bus: k.bus, k: k} },
	},
	{
		"no session check before a call",
		true,
		func(k *components) { k.store = alwaysAlive{k.store} },
	},
	{"window entry without row", true, func(k *components) { k.store = noRows{k.store} }},
	{MutantLostInstants, true, func(k *components) { k.store = lostInstants{k.store} }},
	{"cursor skips minutes", true, func(k *components) { k.store = skipMinutes{k.store} }},
	{"sessions never expire", true, func(k *components) { k.store = neverExpire{k.store} }},
	{
		"sessions expire at once",
		false,
		func(k *components) { k.store = &expireAtOnce{Store: k.store} },
	},
	{
		"changes are ignored",
		true,
		func(k *components) { k.store, k.bus = noChanges{k.store}, noChangeNotifications{k.bus} },
	},
	{"clock is not corrected", false, func(k *components) {
		k.clock = clock.New(
			k.p.hostTime,
			func(context.Context) (time.Time, error) { return k.p.hostTime(), nil },
		)
	}},
	{"every claim succeeds", true, func(k *components) { k.store = claimsAll{k.store} }},
	{
		"dead letters of dead executors are lost",
		false,
		func(k *components) { k.store = noFailedEvents{k.store} },
	},
	{"results are not recorded", false, func(k *components) { k.store = lostRecords{k.store} }},
	{"calls start early", true, func(k *components) { k.caller = earlyCalls{k.caller} }},
	{
		"unlimited concurrency slots",
		false,
		func(k *components) { k.store = unlimitedSlots{k.store} },
	},
	{"every late fire catches up", false, func(k *components) { k.store = allCatchUp{k.store} }},
	{
		"fixed delays lose successors",
		true,
		func(k *components) { k.store = &lostSuccessors{Store: k.store} },
	},
	{"completions are lost", true, func(k *components) { k.store = lostCompletions{k.store} }},
	{"late fires start in any order", false, func(k *components) { k.store = unordered{k.store} }},
	{
		"edits keep expanded fires",
		false,
		func(k *components) { k.store = editWithoutReplan{k.store} },
	},
	{
		"follow-ups of edits lose fires",
		false,
		func(k *components) { k.store = emptyFollowUps{k.store} },
	},
}

type noneOverdue struct{ store.Store }

func (noneOverdue) Overdue(context.Context, store.OverdueQuery) ([]timer.Fire, error) {
	return nil, nil
}

// noOrphans hides expired sessions, whose claims are then found when they are overdue.
type noOrphans struct{ store.Store }

func (noOrphans) ExpiredSessions(context.Context, time.Duration) ([]store.Session, error) {
	return nil, nil
}

// ackBeforeClaim acknowledges tasks before it claims them.
type ackBeforeClaim struct {
	executor.Bus

	k *components
}

func (h *ackBeforeClaim) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	do bus.Handler,
) (bus.Consumer, error) {
	if s.Name != bus.SubExecutors {
		return h.Bus.Subscribe(ctx, s, do)
	}
	return h.Bus.Subscribe(ctx, s, func(_ context.Context, batch []bus.Message) []error {
		h.k.p.env.running.Go(func() { _ = do(h.k.p.env.ctx, batch) })
		return nil
	})
}

type alwaysAlive struct{ store.Store }

func (s alwaysAlive) RenewSession(ctx context.Context, id timer.ID, load store.Load) (bool, error) {
	_, _ = s.Store.RenewSession(ctx, id, load)
	return true, nil
}

// noRows commits a timer's expansion without its fires, which are then only in the window.
type noRows struct{ store.Store }

func (s noRows) Expand(
	ctx context.Context,
	limit int,
	plan store.Planner,
) ([]timer.Fire, int, error) {
	var mu sync.Mutex
	var fires []timer.Fire
	_, n, err := s.Store.Expand(ctx, limit, func(t *timer.Timer, nowMS int64) store.Plan {
		p := plan(t, nowMS)
		mu.Lock()
		defer mu.Unlock()
		fires, p.Fires = append(fires, p.Fires...), nil
		return p
	})
	return fires, n, err
}

// lostInstants commits each expansion without its last fire.
type lostInstants struct{ store.Store }

func (s lostInstants) Expand(
	ctx context.Context,
	limit int,
	plan store.Planner,
) ([]timer.Fire, int, error) {
	return s.Store.Expand(ctx, limit, func(t *timer.Timer, nowMS int64) store.Plan {
		p := plan(t, nowMS)
		p.Fires = p.Fires[:max(0, len(p.Fires)-1)]
		return p
	})
}

type skipMinutes struct{ store.Store }

func (skipMinutes) Cursor(_ context.Context, minute int64) (int64, error) { return minute, nil }

type neverExpire struct{ store.Store }

func (neverExpire) ExpireSession(
	context.Context,
	timer.ID,
	int64,
) (bool, error) {
	return false, nil
}

// expireAtOnce makes the session monitor see no renewals.
type expireAtOnce struct {
	store.Store

	mu       sync.Mutex
	renewals map[timer.ID]int64
}

func (s *expireAtOnce) LiveSessions(ctx context.Context) ([]store.Session, error) {
	all, err := s.Store.LiveSessions(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewals == nil {
		s.renewals = make(map[timer.ID]int64)
	}
	for i := range all {
		s.renewals[all[i].ID] = all[i].Renewals
		all[i].Renewals = 0
	}
	return all, err
}

func (s *expireAtOnce) ExpireSession(ctx context.Context, id timer.ID, _ int64) (bool, error) {
	s.mu.Lock()
	n := s.renewals[id]
	s.mu.Unlock()
	return s.Store.ExpireSession(ctx, id, n)
}

// noChanges hides the change log; noChangeNotifications drops change notifications.
type noChanges struct{ store.Store }

func (noChanges) Changes(context.Context, int64, int) ([]store.Change, error) { return nil, nil }

type noChangeNotifications struct{ executor.Bus }

func (b noChangeNotifications) Broadcast(
	ctx context.Context,
	t bus.Topic,
	_ func(context.Context, bus.Message),
) (bus.Consumer, error) {
	return b.Bus.Broadcast(ctx, t, func(context.Context, bus.Message) {})
}

// claimsAll treats every requested fire as claimed.
type claimsAll struct{ store.Store }

func (s claimsAll) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	_, err := s.Store.Claim(ctx, session, fires)
	return fires, err
}

type lostRecords struct{ store.Store }

func (s lostRecords) Record(
	ctx context.Context,
	session timer.ID,
	os []timer.Outcome,
	as []timer.Attempt,
) ([]timer.FireID, []timer.Fire, error) {
	if len(os)%3 == 0 { //nolint:mnd // now and then
		return nil, nil, nil
	}
	return s.Store.Record(ctx, session, os, as)
}

// noFailedEvents has no failed outcome to publish again: what an executor had recorded and not
// published when it died.
type noFailedEvents struct{ store.Store }

func (s noFailedEvents) PendingEvents(
	ctx context.Context,
	session timer.ID,
	after store.OutcomePosition,
	untilMS int64,
	limit int,
) ([]timer.Outcome, error) {
	page, err := s.Store.PendingEvents(ctx, session, after, untilMS, limit)
	for i := range page {
		if page[i].Kind == timer.Failed {
			page[i].Kind = timer.Skipped // its event has no dead letter
		}
	}
	return page, err
}

// earlyCalls reports a start slightly before the actual one.
type earlyCalls struct{ callback.Caller }

func (c earlyCalls) Call(ctx context.Context, q *callback.Request) callback.Result {
	q.Start = q.Start.Add(-time.Millisecond)
	return c.Caller.Call(ctx, q)
}

// unlimitedSlots grants every request for a concurrency slot.
type unlimitedSlots struct{ store.Store }

func (unlimitedSlots) AcquireSlots(
	_ context.Context,
	_ timer.ID,
	asks []store.SlotRequest,
) ([]store.SlotResult, error) {
	return make([]store.SlotResult, len(asks)), nil
}

// allCatchUp lets every late fire catch up.
type allCatchUp struct{ store.Store }

func (allCatchUp) CatchUp(_ context.Context, asks []store.CatchUpRequest) ([]bool, error) {
	run := make([]bool, len(asks))
	for i := range run {
		run[i] = true
	}
	return run, nil
}

// lostSuccessors drops some successors.
type lostSuccessors struct {
	store.Store

	n atomic.Int64
}

func (s *lostSuccessors) Record(
	ctx context.Context,
	session timer.ID,
	os []timer.Outcome,
	as []timer.Attempt,
) ([]timer.FireID, []timer.Fire, error) {
	for i := range os {
		if os[i].Next != nil && s.n.Add(1)%7 == 0 { //nolint:mnd // now and then
			os[i].Next = nil
		}
	}
	return s.Store.Record(ctx, session, os, as)
}

// editWithoutReplan plans no fires for the new version, which starts where the expansion of the old
// one ended.
type editWithoutReplan struct{ store.Store }

func (s editWithoutReplan) Edit(
	ctx context.Context,
	items []store.Edit,
	_ store.Planner,
) ([]store.EditResult, error) {
	return s.Store.Edit(ctx, items, func(t *timer.Timer, nowMS int64) store.Plan {
		next := nowMS + time.Hour.Milliseconds()
		return store.Plan{
			NextDueMS:  max(t.NextDueMS, next),
			ExpandAtMS: nowMS + time.Minute.Milliseconds(),
		}
	})
}

// emptyFollowUps moves and inserts no fires in the follow-ups of edits.
type emptyFollowUps struct{ store.Store }

func (s emptyFollowUps) ContinueReplans(
	ctx context.Context,
	plan store.Planner,
) (fires []timer.Fire, more bool, err error) {
	return s.Store.ContinueReplans(ctx, func(t *timer.Timer, nowMS int64) store.Plan {
		p := plan(t, nowMS)
		p.Fires = nil
		return p
	})
}

// lostCompletions confirms completions without recording them.
type lostCompletions struct{ store.Store }

func (lostCompletions) Complete(
	context.Context,
	string,
	store.Completion,
) (store.CompletionResult, error) {
	return store.CompletionResult{State: store.CompletionAccepted}, nil
}

// unordered hides the open fires of earlier due instants, so that late fires do not wait for them.
type unordered struct{ store.Store }

func (unordered) OpenAmong(
	context.Context,
	[]timer.FireID,
) ([]timer.Fire, error) {
	return nil, nil
}
