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

// Mutant is a bug that a deployment can be given by wrapping its parts.
type Mutant struct {
	Name    string
	Obvious bool // caught by one of the first seeds
	Mutate  func(*kit)
}

// Mutants are bugs that must be found: a simulation that finds none of them proves nothing.
var Mutants = []Mutant{
	{"no sweep", true, func(k *kit) { k.store = noSweep{k.store} }},
	{"acknowledge before the claim", true, func(k *kit) { k.bus = &hasty{Bus: k.bus, k: k} }},
	{"no look at the session before a call", true, func(k *kit) { k.store = alwaysAlive{k.store} }},
	{"mark without row", true, func(k *kit) { k.store = noRows{k.store} }},
	{"cursor that skips minutes", true, func(k *kit) { k.store = skipping{k.store} }},
	{"sessions never end", true, func(k *kit) { k.store = immortal{k.store} }},
	{"sessions end at a look", false, func(k *kit) { k.store = &impatient{Store: k.store} }},
	{"deaf to changes", true, func(k *kit) { k.store, k.bus = deaf{k.store}, deafBus{k.bus} }},
	{"clock not put right", false, func(k *kit) {
		k.clock = clock.New(
			k.p.wall,
			func(context.Context) (time.Time, error) { return k.p.wall(), nil },
		)
	}},
	{"a claim is taken for granted", true, func(k *kit) { k.store = granted{k.store} }},
	{"answers are not recorded", false, func(k *kit) { k.store = forgetful{k.store} }},
	{"calls before the run", true, func(k *kit) { k.caller = early{k.caller} }},
	{"everybody has the turn", false, func(k *kit) { k.store = crowded{k.store} }},
	{"every late fire catches up", false, func(k *kit) { k.store = catchAll{k.store} }},
	{"a chain breaks now and then", true, func(k *kit) { k.store = &brittle{Store: k.store} }},
	{"completions are forgotten", true, func(k *kit) { k.store = heedless{k.store} }},
	{"edits leave what was expanded", false, func(k *kit) { k.store = halfEdits{k.store} }},
}

type noSweep struct{ store.Store }

func (noSweep) Overdue(context.Context, store.OverdueQuery) ([]timer.Fire, error) {
	return nil, nil
}

// hasty acknowledges tasks and claims them afterwards.
type hasty struct {
	executor.Bus

	k *kit
}

func (h *hasty) Subscribe(
	ctx context.Context,
	s bus.Subscription,
	do bus.Handler,
) (bus.Consumer, error) {
	if s.Name != bus.SubExecutors {
		return h.Bus.Subscribe(ctx, s, do)
	}
	return h.Bus.Subscribe(ctx, s, func(_ context.Context, batch []bus.Message) []error {
		h.k.p.world.running.Go(func() { _ = do(h.k.p.world.ctx, batch) })
		return nil
	})
}

type alwaysAlive struct{ store.Store }

func (s alwaysAlive) RenewSession(ctx context.Context, id timer.ID, load store.Load) (bool, error) {
	_, _ = s.Store.RenewSession(ctx, id, load)
	return true, nil
}

// noRows commits where a timer's expansion stands, and leaves out the fires that are marked.
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

type skipping struct{ store.Store }

func (skipping) Cursor(_ context.Context, minute int64) (int64, error) { return minute, nil }

type immortal struct{ store.Store }

func (immortal) ExpireSession(context.Context, timer.ID, int64) (bool, error) { return false, nil }

// impatient has its watcher believe that nobody ever renews.
type impatient struct {
	store.Store

	mu   sync.Mutex
	seen map[timer.ID]int64
}

func (s *impatient) LiveSessions(ctx context.Context) ([]store.Session, error) {
	all, err := s.Store.LiveSessions(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[timer.ID]int64)
	}
	for i := range all {
		s.seen[all[i].ID] = all[i].Renewals
		all[i].Renewals = 0
	}
	return all, err
}

func (s *impatient) ExpireSession(ctx context.Context, id timer.ID, _ int64) (bool, error) {
	s.mu.Lock()
	n := s.seen[id]
	s.mu.Unlock()
	return s.Store.ExpireSession(ctx, id, n)
}

// deaf reads no change log, and its bus tells of no change.
type deaf struct{ store.Store }

func (deaf) Changes(context.Context, int64, int) ([]store.Change, error) { return nil, nil }

type deafBus struct{ executor.Bus }

func (b deafBus) Broadcast(
	ctx context.Context,
	t bus.Topic,
	_ func(context.Context, bus.Message),
) (bus.Consumer, error) {
	return b.Bus.Broadcast(ctx, t, func(context.Context, bus.Message) {})
}

// granted takes every fire that it asked for as won.
type granted struct{ store.Store }

func (s granted) Claim(
	ctx context.Context,
	session timer.ID,
	fires []timer.Fire,
) ([]timer.Fire, error) {
	_, err := s.Store.Claim(ctx, session, fires)
	return fires, err
}

type forgetful struct{ store.Store }

func (s forgetful) Record(
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

// early says of its calls that they start a little before they do.
type early struct{ callback.Caller }

func (c early) Call(ctx context.Context, q *callback.Request) callback.Result {
	q.Start = q.Start.Add(-time.Millisecond)
	return c.Caller.Call(ctx, q)
}

// crowded gives the turn to everybody who asks.
type crowded struct{ store.Store }

func (crowded) AcquireSlots(
	_ context.Context,
	_ timer.ID,
	asks []store.SlotRequest,
) ([]store.SlotResult, error) {
	return make([]store.SlotResult, len(asks)), nil
}

// catchAll lets every late fire be the one that catches up.
type catchAll struct{ store.Store }

func (catchAll) CatchUp(_ context.Context, asks []store.Late) ([]bool, error) {
	run := make([]bool, len(asks))
	for i := range run {
		run[i] = true
	}
	return run, nil
}

// brittle forgets some of the fires that follow.
type brittle struct {
	store.Store

	n atomic.Int64
}

func (s *brittle) Record(
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

// halfEdits plans nothing for the new version: it begins where the old one was expanded up to.
type halfEdits struct{ store.Store }

func (s halfEdits) Edit(
	ctx context.Context,
	items []store.Edit,
	_ store.Planner,
) ([]store.Edited, error) {
	return s.Store.Edit(ctx, items, func(t *timer.Timer, nowMS int64) store.Plan {
		next := nowMS + time.Hour.Milliseconds()
		return store.Plan{
			NextDueMS:  max(t.NextDueMS, next),
			ExpandAtMS: nowMS + time.Minute.Milliseconds(),
		}
	})
}

// heedless thanks for completions.
type heedless struct{ store.Store }

func (heedless) Complete(context.Context, string, store.Completion) (store.Completed, error) {
	return store.Completed{State: store.CompletedNow}, nil
}
